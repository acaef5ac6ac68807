//! The worker is killed between a ticket's request and its checkpoint, at each place that there is between the two.
//!
//! Every place is made sure of by an event and not by luck: the ticket server stops there and says so, or the table holds the
//! write and says so. The server keeps no promise for the worker: it counts what it was asked under which key.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use longhaul_tests::program::{PATIENCE, entries, wait_for};
use serde_json::{Value, json};

use crate::field::{Field, signal};

/// Where the worker dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Its connection is there, no byte of the request has been read.
    Connected,
    /// The request's head has been read.
    HeadRead,
    /// The request has been read; no ticket is opened for it.
    TakenIn,
    /// The request has been read; the ticket is opened after the death.
    OpensLate,
    /// The ticket is open, no byte has been answered.
    Opened,
    /// The answer's first line has been sent.
    StatusSent,
    /// Half of the answer's body has been sent.
    HalfAnswered,
    /// The answer has been sent; the worker stands still and never reads it.
    Unread,
    /// The worker has the answer; its checkpoint has reached the table and is not written.
    CheckpointHeld,
    /// The same at the second try; the first was answered by an error.
    SecondTryHeld,
    /// The checkpoint is written, the worker does not hear of it.
    CheckpointUnheard,
    /// The checkpoint is written, its answer was lost, and the worker asks again.
    EchoHeld,
}

/// How far the server is with the request at which the worker is to die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Away,
    /// The place is reached, or the next word is the test's.
    Reached,
    /// The test says: answer.
    Answer,
    Answered,
    Killed,
}

/// One worker's life, as the server sees it.
struct Wave {
    /// Where the worker dies, and how many tickets are answered before; none: everything is answered.
    place: Option<(Place, usize)>,
    connections: AtomicUsize,
    stage: Mutex<Stage>,
    changed: Condvar,
}

impl Wave {
    fn of(place: Option<(Place, usize)>) -> Arc<Self> {
        let (connections, stage, changed) = (AtomicUsize::new(0), Mutex::new(Stage::Away), Condvar::new());
        Arc::new(Self { place, connections, stage, changed })
    }

    fn say(&self, stage: Stage) {
        *self.stage.lock().unwrap() = stage;
        self.changed.notify_all();
    }

    fn wait(&self, stage: Stage) {
        let now = self.stage.lock().unwrap();
        let (_now, waited) = self.changed.wait_timeout_while(now, PATIENCE, |now| *now < stage).unwrap();
        assert!(!waited.timed_out(), "waited for {stage:?}");
    }
}

/// The server's books.
struct Desk {
    wave: Mutex<Arc<Wave>>,
    /// What each key asked for, once for each request; nothing where only the head was read.
    requests: Mutex<BTreeMap<String, Vec<Value>>>,
    /// Tickets by key.
    opened: Mutex<BTreeMap<String, String>>,
}

struct Tickets {
    url: String,
    desk: Arc<Desk>,
}

impl Tickets {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/tickets", listener.local_addr().unwrap());
        let desk =
            Arc::new(Desk { wave: Mutex::new(Wave::of(None)), requests: Mutex::default(), opened: Mutex::default() });
        let server = Self { url, desk: Arc::clone(&desk) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let wave = Arc::clone(&desk.wave.lock().unwrap());
                let line = Line { desk: Arc::clone(&desk), wave };
                std::thread::spawn(move || line.serve(stream.unwrap()));
            }
        });
        server
    }

    /// Begins a wave; the one before it stays what it is for its connections.
    fn begin(&self, place: Option<(Place, usize)>) -> Arc<Wave> {
        let wave = Wave::of(place);
        *self.desk.wave.lock().unwrap() = Arc::clone(&wave);
        wave
    }
}

/// One connection.
struct Line {
    desk: Arc<Desk>,
    wave: Arc<Wave>,
}

impl Line {
    fn serve(self, stream: TcpStream) {
        let number = self.wave.connections.fetch_add(1, Ordering::SeqCst);
        let place = match self.wave.place {
            Some((place, before)) if number == before => Some(place),
            // Those behind it wait until the worker is dead; nothing of them is read.
            Some((_, before)) if number > before => return self.wave.wait(Stage::Killed),
            Some(_) | None => None,
        };
        let stop_at = |here: Place| {
            let stops = place == Some(here);
            if stops {
                self.wave.say(Stage::Reached);
                self.wave.wait(Stage::Killed);
            }
            stops
        };
        if stop_at(Place::Connected) {
            return;
        }
        let mut stream = BufReader::new(stream);
        let Some((key, length)) = head(&mut stream) else { return };
        if stop_at(Place::HeadRead) {
            self.desk.requests.lock().unwrap().entry(key).or_default().push(Value::Null);
            return;
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let asked = serde_json::from_slice(&body).unwrap();
        self.desk.requests.lock().unwrap().entry(key.clone()).or_default().push(asked);
        if stop_at(Place::TakenIn) {
            return;
        }
        stop_at(Place::OpensLate);
        let answer = json!({ "id": self.open(&key) }).to_string();
        if place == Some(Place::OpensLate) || stop_at(Place::Opened) {
            return;
        }
        let (status, head) = (
            "HTTP/1.1 201 Created\r\n",
            format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len()),
        );
        let send = |text: &str| {
            // The worker may be dead.
            let _ = stream.get_ref().write_all(text.as_bytes());
        };
        match place {
            Some(Place::StatusSent) => send(status),
            Some(Place::HalfAnswered) => send(&format!("{status}{head}{}", &answer[..answer.len() / 2])),
            Some(_) => {
                self.wave.say(Stage::Reached);
                self.wave.wait(Stage::Answer);
                send(&format!("{status}{head}{answer}"));
                self.wave.say(Stage::Answered);
                return;
            }
            None => return send(&format!("{status}{head}{answer}")),
        }
        self.wave.say(Stage::Reached);
        self.wave.wait(Stage::Killed);
    }

    /// Opens the ticket of a key, or finds it open.
    fn open(&self, key: &str) -> String {
        let mut opened = self.desk.opened.lock().unwrap();
        let next = format!("T-{}", opened.len() + 1);
        opened.entry(key.to_owned()).or_insert(next).clone()
    }
}

/// The key and the body's length; none when the connection ends before.
fn head(stream: &mut BufReader<TcpStream>) -> Option<(String, usize)> {
    let (mut key, mut length) = (None, None);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("idempotency-key") => key = Some(value.to_owned()),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok(),
            Some(_) => {}
            None if line.trim_end().is_empty() => {
                return Some((key.expect("a key"), length.expect("a length")));
            }
            None => assert!(line.starts_with("POST /tickets "), "{line}"),
        }
    }
}

/// Three breaches and a rule that is met.
const AGREEMENT: &str = "The Supplier retains Personal Data for 36 months after this Agreement ends.\n\n\
    The Customer pays each invoice within 90 days after receipt of the invoice.\n\n\
    The Supplier keeps audit logs of access for 3 months.\n\n\
    Customer Data is encrypted at rest and in transit.\n";

fn input(document: &Path, url: &str) -> Value {
    json!({
        "document": document,
        "rules": [
            {"id": "data", "requirement": "Personal Data must be deleted within 12 months after the Agreement ends."},
            {"id": "pay", "requirement": "Invoices must be paid within 60 days after receipt of the invoice."},
            {"id": "logs", "requirement": "Audit logs of access must be kept for at least 12 months."},
            {"id": "secret", "requirement": "Customer Data must be encrypted at rest and in transit."},
        ],
        "tickets_url": url,
    })
}

/// The plan by which the table stops at a place, for places at the table.
fn plan(place: Place) -> Option<Value> {
    let rule = |fault: &str| {
        json!({"service": "dynamodb", "action": "PutItem", "containing": "open ticket", "fault": fault, "every": 1,
               "times": 1, "hold_ms": 60_000})
    };
    match place {
        Place::CheckpointHeld => Some(json!({"rules": [rule("held")]})),
        Place::SecondTryHeld => Some(json!({"rules": [rule("failed"), rule("held")]})),
        Place::CheckpointUnheard => Some(json!({"rules": [rule("held_after")]})),
        Place::EchoHeld => Some(json!({"rules": [rule("cut_after"), rule("held")]})),
        Place::Connected
        | Place::HeadRead
        | Place::TakenIn
        | Place::OpensLate
        | Place::Opened
        | Place::StatusSent
        | Place::HalfAnswered
        | Place::Unread => None,
    }
}

fn tickets_recorded(job: &Value) -> usize {
    entries(job, "step_completed").iter().filter(|entry| entry["name"] == "open ticket").count()
}

/// Brings the job to a wave's place, `recorded` tickets being recorded there, and kills every worker.
fn kill_at(field: &Field, wave: &Wave, id: &str, place: Place, recorded: usize) {
    let stack = &field.stack;
    wave.wait(Stage::Reached);
    wait_for("the tickets before it to be recorded", || tickets_recorded(&stack.show(id)) == recorded);
    if let Some(plan) = plan(place) {
        field.plan(&plan);
        wave.say(Stage::Answer);
        wait_for("the table to stop there", || field.told().iter().all(|rule| rule["hits"] == 1));
        if place == Place::CheckpointUnheard {
            wait_for("the checkpoint", || tickets_recorded(&stack.show(id)) == recorded + 1);
        }
        field.plan(&json!({}));
    }
    let workers = stack.processes("worker");
    if place == Place::Unread {
        assert!(workers.iter().all(|worker| signal(*worker, "STOP")));
        wave.say(Stage::Answer);
        wave.wait(Stage::Answered);
    }
    let killed = workers.iter().filter(|worker| signal(**worker, "KILL")).count();
    assert!(killed > 0, "{place:?}");
    wait_for("the workers to be gone", || stack.processes("worker").iter().all(|living| !workers.contains(living)));
}

/// Kills at these places one after the other, then holds the job to what was promised. `asked`: how often the ticket was
/// asked for at which the worker died.
fn check(field: &Field, tickets: &Tickets, document: &Path, places: &[(Place, usize)], asked: usize) {
    tickets.desk.requests.lock().unwrap().clear();
    tickets.desk.opened.lock().unwrap().clear();
    let mut wave = tickets.begin(places.first().copied());
    let id = field.stack.submit("compliance", &input(document, &tickets.url));
    let mut recorded = 0;
    for (number, (place, before)) in places.iter().enumerate() {
        recorded += before;
        kill_at(field, &wave, &id, *place, recorded);
        let next = tickets.begin(places.get(number + 1).copied());
        wave.say(Stage::Killed);
        wave = next;
    }
    let job = field.stack.ended(&id);
    assert_eq!(job["job"]["status"], "COMPLETED", "{places:?}: {job}");
    let takeovers = entries(&job, "claimed").iter().filter(|claim| claim["takeover"] == true).count();
    assert_eq!(takeovers, places.len(), "{places:?}: each kill hit the job");
    let requests = tickets.desk.requests.lock().unwrap().clone();
    assert_eq!(requests.len(), 3, "{places:?}: three keys: {requests:?}");
    let mut counts: Vec<usize> = requests.values().map(Vec::len).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, asked], "{places:?}");
    for (key, bodies) in &requests {
        assert!(key.starts_with(&id), "{key}");
        let whole: Vec<&Value> = bodies.iter().filter(|body| !body.is_null()).collect();
        assert!(whole.windows(2).all(|pair| pair[0] == pair[1]), "{places:?}: one key asks for one thing");
    }
    let mut rules: Vec<&str> =
        requests.values().map(|bodies| bodies.last().unwrap()["rule"].as_str().unwrap()).collect();
    rules.sort_unstable();
    assert_eq!(rules, ["data", "logs", "pay"], "{places:?}: one ticket for each breach");
    let mut opened: Vec<String> = tickets.desk.opened.lock().unwrap().values().cloned().collect();
    opened.sort();
    let result = &entries(&job, "completed")[0]["output"];
    let mut recorded: Vec<&str> =
        result["tickets"].as_array().unwrap().iter().map(|ticket| ticket["id"].as_str().unwrap()).collect();
    recorded.sort_unstable();
    assert_eq!((opened.len(), recorded), (3, opened.iter().map(String::as_str).collect()), "{places:?}");
}

#[test]
fn three_tickets_wherever_the_worker_dies() {
    let field = Field::up(&["--think-ms", "0", "--faults", "{}"]);
    let document = field.stack.data().join("agreement.txt");
    std::fs::write(&document, AGREEMENT).unwrap();
    let tickets = Tickets::start();
    // Where the worker dies and how many tickets stand in the journal by then; how often that ticket is asked for.
    let rows: [(&[(Place, usize)], usize); 14] = [
        (&[(Place::Connected, 0)], 1),
        (&[(Place::HeadRead, 1)], 2),
        (&[(Place::TakenIn, 2)], 2),
        (&[(Place::OpensLate, 0)], 2),
        (&[(Place::Opened, 1)], 2),
        (&[(Place::StatusSent, 2)], 2),
        (&[(Place::HalfAnswered, 0)], 2),
        (&[(Place::Unread, 1)], 2),
        (&[(Place::CheckpointHeld, 2)], 2),
        (&[(Place::SecondTryHeld, 0)], 2),
        (&[(Place::CheckpointUnheard, 1)], 1),
        (&[(Place::EchoHeld, 2)], 1),
        // Twice at the same ticket, before and behind its opening.
        (&[(Place::OpensLate, 2), (Place::Opened, 0)], 3),
        (&[(Place::CheckpointHeld, 2), (Place::CheckpointHeld, 0)], 3),
    ];
    for (places, asked) in rows {
        check(&field, &tickets, &document, places, asked);
    }
}
