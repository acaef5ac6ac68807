//! Requests for forks that are repeated, or come at once: one key, one fork.
#![allow(clippy::large_futures, clippy::too_many_lines, reason = "a scenario is read in one piece, and runs once")]

use std::time::Duration;

use longhaul::engine::entry::Edit;
use longhaul::engine::{Entry, Seq, StepKey};
use longhaul::forking::{self, ForkOrder, ForkPoint};
use longhaul::outside::{self, OutsideError};
use longhaul_sim::Sim;
use longhaul_sim::workshop::Workshop;
use serde_json::json;

use crate::forks::{asked, forked, journey, travelled, types};
use crate::ground::Done;

/// A fork that was made is what a repeated request is answered with, though the job that it was made of has since done what
/// a new fork may not repeat; and another request under its key is another one.
#[tokio::test(start_paused = true)]
async fn a_repeated_request_is_answered_with_its_fork() {
    for (number, from) in
        [(1, ForkPoint::Step(StepKey::at("", 4))), (2, ForkPoint::LastGood), (3, ForkPoint::Position(Seq(4)))]
    {
        let done = Done::default();
        let workshop = Workshop::new(Sim::faultless(), journey(&done));
        workshop
            .run(1, async {
                let source = workshop.submit(workshop.order("agent", json!({}))).await;
                let careful =
                    |from: &ForkPoint| ForkOrder { repeat_effects: false, ..asked(&workshop, number, from.clone()) };
                let until = |status| workshop.until(&source, move |job| job.progress.state.status() == status);
                until(longhaul::engine::job::Status::Waiting).await;
                let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                let (name, key) = ("go".parse().unwrap(), "s1".parse().unwrap());
                outside::signal(&store, &source, name, key, json!("east"), "ada".into(), now).await.unwrap();
                // It grows, and rests before the effect that may happen once.
                while !types(&workshop, &source)
                    .iter()
                    .any(|entry| matches!(entry, Entry::WaitEnded { id, .. } if id.name == "leaf"))
                {
                    workshop.clock.sleep(Duration::from_millis(50)).await;
                }
                let (_, first) = forked(&workshop, &source, careful(&from)).await.unwrap();
                assert!(!first.accepted.existed);
                workshop.ended(&source).await;
                let (_, again) = forked(&workshop, &source, careful(&from)).await.unwrap();
                assert!(again.accepted.existed, "{from:?}");
                assert_eq!(again.accepted.job.order, first.accepted.job.order, "{from:?}");
                let other = careful(&ForkPoint::Position(Seq(2)));
                let refused = forked(&workshop, &source, other).await;
                assert!(
                    matches!(refused, Err(OutsideError::Repeats { .. } | OutsideError::OtherRequest)),
                    "{refused:?}"
                );
            })
            .await;
    }
}

/// Of two equal requests at once, one of which is slow at any of its calls while the other job goes on, both are answered with
/// one fork.
#[tokio::test(start_paused = true)]
async fn requests_at_once_are_answered_with_one_fork() {
    for call in 1..=6 {
        let done = Done::default();
        let workshop = Workshop::new(Sim::faultless(), journey(&done));
        workshop
            .run(1, async {
                let source = workshop.submit(workshop.order("agent", json!({}))).await;
                let waiting = longhaul::engine::job::Status::Waiting;
                workshop.until(&source, move |job| job.progress.state.status() == waiting).await;
                let slow = workshop.sim.handle();
                slow.freeze_at(call, Duration::from_secs(600));
                let late = slow.unless_frozen(forking::fork(&slow, &source, asked(&workshop, 1, ForkPoint::LastGood)));
                let early = async {
                    let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                    let (name, key) = ("go".parse().unwrap(), "s1".parse().unwrap());
                    outside::signal(&store, &source, name, key, json!("east"), "ada".into(), now).await.unwrap();
                    workshop.ended(&source).await;
                    forked(&workshop, &source, asked(&workshop, 1, ForkPoint::LastGood)).await
                };
                let (late, early) = tokio::join!(late, early);
                let (late, (_, early)) = (late.unwrap(), early.unwrap());
                assert_eq!(late.accepted.job.order.origin, early.accepted.job.order.origin, "slow at call {call}");
                assert!(late.accepted.existed != early.accepted.existed, "one of them made it, slow at call {call}");
            })
            .await;
    }
}

/// A fork was made of what its job was to do then. A replay that changes the job's input changes nothing about it.
#[tokio::test(start_paused = true)]
async fn a_repeated_request_finds_its_fork_behind_a_replay_with_another_input() {
    let done = Done::default();
    let workshop = Workshop::new(Sim::faultless(), journey(&done));
    workshop
        .run(2, async {
            let source = travelled(&workshop, json!({"broken": true})).await;
            let plain = asked(&workshop, 1, ForkPoint::Position(Seq(3)));
            let edit = Edit { model: Some("better".to_owned()), ..Edit::default() };
            let changed = ForkOrder { edit, ..asked(&workshop, 2, ForkPoint::Position(Seq(3))) };
            for order in [&plain, &changed] {
                assert!(!forked(&workshop, &source, order.clone()).await.unwrap().1.accepted.existed);
            }
            let (store, now) = (workshop.sim.handle(), workshop.clock.now());
            let edit = Edit { input: Some(json!({})), ..Edit::default() };
            outside::replay(&store, &source, "r1".parse().unwrap(), "ada".into(), None, edit, now).await.unwrap();
            workshop.ended(&source).await;
            for order in [&plain, &changed] {
                let (_, again) = forked(&workshop, &source, order.clone()).await.unwrap();
                assert!(again.accepted.existed);
                assert_eq!(again.accepted.job.order.input, json!({"broken": true}));
                // Another request under its id is refused as before.
                let edit = Edit { model: Some("best".to_owned()), ..Edit::default() };
                let other = forked(&workshop, &source, ForkOrder { edit, ..order.clone() }).await;
                assert!(matches!(other, Err(OutsideError::OtherRequest)), "{other:?}");
            }
            // A new fork is made of what the job is to do now.
            let (_, new) = forked(&workshop, &source, asked(&workshop, 3, ForkPoint::Position(Seq(3)))).await.unwrap();
            assert_eq!((new.accepted.existed, &new.accepted.job.order.input), (false, &json!({})));
        })
        .await;
}
