//! The routes, and their description in OpenAPI.

mod agents;
mod control;
mod deliveries;
mod erasures;
mod event_stream;
mod events;
mod export;
mod fork;
mod jobs;
mod plain;
mod schedules;
mod submit;
mod tenant;

use axum::extract::Request;
use axum::{Router, middleware};
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::{Event, Problem};
use utoipa::openapi::OpenApi as Description;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::answer::Refused;
use crate::console;
use crate::frame;
use crate::service::Service;

/// What the description says about the whole.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Longhaul",
        description = "Long agent jobs, one checkpointed step at a time. Every call carries a JSON Web Token; what it \
                       sees belongs to the token's tenant. Errors are problems of RFC 9457: decide by `type`. A request \
                       that changes something may be repeated with the same `Idempotency-Key`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(ProblemBody, Event, longhaul_wire::socket::ClientMessage, longhaul_wire::socket::ServerMessage)),
    security(("token" = [])),
    modifiers(&Token)
)]
struct Whole;

/// How calls are authenticated.
struct Token;

impl Modify for Token {
    fn modify(&self, description: &mut Description) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("JWT")
            .description(Some(
                "Scopes: `jobs:read` (look), `jobs:write` (submit, signal, cancel), `jobs:operate` (replay, fork), `agents:write` \
                 (define agents), `tenant:admin` (settle what holds for all jobs), `tenant:erase` (erase everything).",
            ))
            .build();
        description.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

fn described() -> OpenApiRouter<Service> {
    OpenApiRouter::with_openapi(Whole::openapi())
        .routes(routes!(submit::submit, jobs::list))
        .routes(routes!(jobs::get))
        .routes(routes!(jobs::journal))
        .routes(routes!(export::entry))
        .routes(routes!(export::export))
        .routes(routes!(events::events))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::resend))
        .routes(routes!(control::cancel))
        .routes(routes!(control::signal))
        .routes(routes!(control::replay))
        .routes(routes!(fork::fork))
        .routes(routes!(jobs::dead_letters))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::get, schedules::put, schedules::delete))
        .routes(routes!(agents::list))
        .routes(routes!(agents::get, agents::put))
        .routes(routes!(tenant::get, tenant::put))
        .routes(routes!(erasures::erase, erasures::list))
        .routes(routes!(erasures::get))
}

/// The description of the whole interface.
#[must_use]
pub fn openapi() -> Description {
    described().merge(OpenApiRouter::new().routes(routes!(plain::health))).into_openapi()
}

/// All routes of a service.
pub fn router(service: Service) -> Router {
    let (called, _) = described().split_for_parts();
    let called = called.route_layer(middleware::from_fn_with_state(service.clone(), frame::authenticate));
    let routes = Router::new().merge(called).merge(console::routes());
    around(routes.route("/openapi.json", axum::routing::get(plain::description)), service)
}

/// The one route of the function that streams: it reads, and so has the rights to do that alone.
pub fn streams(service: Service) -> Router {
    let (events, _) = OpenApiRouter::<Service>::new().routes(routes!(events::events)).split_for_parts();
    let events = events.route_layer(middleware::from_fn_with_state(service.clone(), frame::authenticate));
    around(Router::new().merge(events), service)
}

/// What stands around all routes of a function.
fn around(routes: Router<Service>, service: Service) -> Router {
    routes
        .route("/healthz", axum::routing::get(plain::health))
        .fallback(unknown_route)
        .method_not_allowed_fallback(unknown_method)
        .layer(middleware::from_fn(frame::around))
        .with_state(service)
}

async fn unknown_route(request: Request) -> Refused {
    Refused(Problem::UnknownRoute { path: request.uri().path().to_owned() })
}

async fn unknown_method(request: Request) -> Refused {
    Refused(Problem::MethodNotAllowed { method: request.method().to_string() })
}
