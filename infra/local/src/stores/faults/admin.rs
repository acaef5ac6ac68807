//! The address at which the plan is read and changed while the stack runs.
//!
//! - `GET /faults`: each rule with the calls that it met (`calls`) and those that it hit (`hits`).
//! - `POST /faults`: a new plan; the counts begin anew. A plan without rules ends all faults.
//!
//! It listens on 127.0.0.1 and only when faults were asked for at the start. A page in a browser cannot reach it: a
//! body must come as `application/json`, which a browser sends to no stranger without asking him first.

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use serde_json::json;

use super::{FaultPlan, FaultRule, Faults};

/// A rule and what came of it.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    rule: FaultRule,
    calls: u64,
    hits: u64,
}

/// The routes.
pub(crate) fn router(faults: Faults) -> Router {
    Router::new().route("/faults", get(tell).post(change)).with_state(faults)
}

async fn tell(State(faults): State<Faults>) -> Response {
    let told: Vec<Told> = faults.report().into_iter().map(|(rule, calls, hits)| Told { rule, calls, hits }).collect();
    Json(told).into_response()
}

async fn change(State(faults): State<Faults>, body: Result<Json<FaultPlan>, JsonRejection>) -> Response {
    let Json(plan) = match body {
        Ok(plan) => plan,
        Err(rejection) => return (rejection.status(), Json(json!({"error": rejection.body_text()}))).into_response(),
    };
    match plan.check() {
        Ok(()) => {
            let rules = plan.rules.len();
            faults.set(plan);
            Json(json!({"rules": rules})).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, Json(json!({"error": error.to_string()}))).into_response(),
    }
}
