//! Real clients, each against a server of this machine over TLS (or ssh): what the settings allow is fetched, and nothing
//! else is reached. A client that is not installed is skipped by name.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test writes files plainly and says when it is skipped"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::{exec, has, home};
use crate::support::{Sandbox, wait_for};

/// Fetches by Go's client, which by itself takes no proxy to an address of this machine, whatever the variables say.
const GO: &str = r#"mkdir -p got && cat > got/main.go <<'END'
package main
import ("fmt"; "io"; "net/http"; "net/url"; "os")
func main() {
    proxy, _ := url.Parse(os.Getenv("HTTPS_PROXY"))
    client := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
    answer, err := client.Get(os.Args[1])
    if err != nil { fmt.Println(err); os.Exit(1) }
    io.Copy(os.Stdout, answer.Body)
}
END
HOME=$PWD GOCACHE=$PWD/got/cache GOFLAGS=-mod=mod GO111MODULE=off SSL_CERT_FILE=ca.pem go run got/main.go URL/x"#;

/// A program that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(program: &str, arguments: &[&str], dir: &Path) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .output()
        .expect("it is installed");
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
}

fn source(name: &str) -> String {
    format!(
        "{}/tests/integration/egress/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// Serves packages of every registry, and says where.
fn serve(dir: &Path) -> (Program, String) {
    fs::create_dir_all(dir.join("root")).expect("own directory");
    run(
        "openssl",
        &[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            "key.pem",
            "-out",
            "ca.pem",
        ],
        dir,
    );
    run("sh", &["-c", "cat ca.pem key.pem > both.pem"], dir);
    let mut server = Command::new("/usr/bin/python3")
        .args([&source("server.py"), "root", "both.pem"])
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("python");
    let mut port = String::new();
    let stdout = server.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut port).expect("a port");
    let host = format!("localhost:{}", port.trim());
    run(
        "bash",
        &[&source("place.sh"), ".", &format!("https://{host}")],
        dir,
    );
    (Program(server), host)
}

/// Returns what a command prints, when it ends well.
fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let said = Command::new(program).args(arguments).output().ok()?;
    let text = said.status.success().then_some(said.stdout)?;
    Some(String::from_utf8(text).ok()?.trim().to_owned())
}

/// Returns whether there is a node that goes by the variables of a proxy: 24.5 or newer.
fn has_new_node() -> bool {
    let version = said_by("node", &["--version"]).unwrap_or_default();
    let mut parts = version
        .trim_start_matches('v')
        .split('.')
        .map(str::parse::<u32>);
    matches!((parts.next(), parts.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (24, 5))
}

/// Copies a program into the workspace that may lie where commands cannot look, such as the toolchain below the home of
/// its user; `which` prints its path.
fn brought(sandbox: &Sandbox, program: &str, which: &[&str]) -> Option<()> {
    let path = PathBuf::from(said_by(which.first()?, &which[1..])?);
    let bytes = fs::read(path).ok()?;
    let copy = sandbox.put(&format!("workspace/bin/{program}"), &bytes);
    fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).ok()
}

#[test]
fn real_clients_fetch_from_what_is_allowed_and_from_nothing_else() {
    let dir = tempfile::TempDir::with_prefix("agent-egress-").expect("a directory");
    let (_server, allowed) = serve(dir.path());
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    other.set_nonblocking(true).expect("own socket");
    let refused = format!("localhost:{}", other.local_addr().expect("own").port());
    let (model, sandbox) = home(std::slice::from_ref(&allowed));
    let ca = fs::read(dir.path().join("ca.pem")).expect("a certificate");
    sandbox.put("workspace/ca.pem", &ca);
    sandbox.put(
        "workspace/crate/Cargo.toml",
        b"[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\nthing = { version = \"1\", registry = \"here\" }\n",
    );
    sandbox.put("workspace/crate/src/lib.rs", b"");
    let _daemon = sandbox.ready();
    let is_cargo = brought(&sandbox, "cargo", &["rustup", "which", "cargo"]).is_some();
    let which = ["sh", "-c", "readlink -f \"$(command -v node)\""];
    let is_node = has_new_node() && brought(&sandbox, "node", &which).is_some();
    let has_pip = has("/usr/bin/python3")
        && Command::new("/usr/bin/python3")
            .args(["-m", "pip", "--version"])
            .output()
            .is_ok_and(|said| said.status.success());
    let clients = [
        (
            "curl",
            has("curl"),
            "curl -sS --cacert ca.pem URL/x",
            "the page",
        ),
        (
            "curl by SOCKS",
            has("curl"),
            "curl -sS --cacert ca.pem --proxy socks5h://127.0.0.1:3128 URL/x",
            "the page",
        ),
        (
            "wget",
            has("wget"),
            "wget -q -t 1 --ca-certificate=ca.pem -O - URL/x",
            "the page",
        ),
        (
            "git",
            has("git"),
            "rm -rf got; GIT_SSL_CAINFO=$PWD/ca.pem git clone -q URL/repo.git got && git -C got log --format=%s",
            "the first",
        ),
        (
            "pip",
            has_pip,
            "/usr/bin/python3 -m pip download -q --disable-pip-version-check --retries 0 --no-deps --cert ca.pem --index-url URL/pypi -d got-pip thing && ls got-pip",
            "thing-1.0.0-py3-none-any.whl",
        ),
        (
            "requests",
            has_pip,
            "/usr/bin/python3 -c 'from pip._vendor import requests; print(requests.get(\"URL/x\", verify=\"ca.pem\").text)'",
            "the page",
        ),
        (
            "npm",
            has("npm"),
            "mkdir -p got-npm && cd got-npm && npm_config_cafile=../ca.pem npm install --no-audit --no-fund --fetch-retries=0 --registry URL/npm thing && cat node_modules/thing/package.json",
            "\"name\": \"thing\"",
        ),
        (
            "cargo",
            is_cargo,
            "cd crate && CARGO_HTTP_CAINFO=../ca.pem CARGO_NET_RETRY=0 CARGO_HOME=$PWD/home CARGO_REGISTRIES_HERE_INDEX=sparse+URL/index/ ../bin/cargo vendor -q got && ls got",
            "thing",
        ),
        (
            "fetch of node 24",
            is_node,
            "NODE_EXTRA_CA_CERTS=$PWD/ca.pem bin/node -e 'fetch(process.argv[1]).then(r => r.text()).then(console.log, e => console.error(e.cause))' URL/x",
            "the page",
        ),
        (
            "https of node 24",
            is_node,
            "NODE_EXTRA_CA_CERTS=$PWD/ca.pem bin/node -e 'require(\"https\").get(process.argv[1], r => r.pipe(process.stdout)).on(\"error\", console.error)' URL/x",
            "the page",
        ),
        ("http client of go", has("go"), GO, "the page"),
    ];
    for (name, is_there, command, expected) in clients {
        if !is_there {
            eprintln!("skipped: {name} is not installed");
            continue;
        }
        let said = exec(
            &sandbox,
            &model,
            &command.replace("URL/", &format!("https://{allowed}/")),
        );
        assert!(said.contains(expected), "{name}: {said}");
        let said = exec(
            &sandbox,
            &model,
            &command.replace("URL/", &format!("https://{refused}/")),
        );
        assert!(
            said.contains(&format!("[network: {refused} is not ")),
            "{name}: {said}"
        );
    }
    assert!(other.accept().is_err(), "somebody connected");
    // Behind the allowed name another is asked for, as where many share a server.
    let other_name = format!(
        "/usr/bin/python3 -c 'import socket, ssl; s = socket.create_connection((\"127.0.0.1\", 3128)); s.sendall(b\"CONNECT {allowed} HTTP/1.1\\r\\n\\r\\n\"); s.recv(99); \
         c = ssl._create_unverified_context(); c.wrap_socket(s, server_hostname=\"other.example\"); print(\"in\")'"
    );
    let said = exec(&sandbox, &model, &other_name);
    let told = format!(
        "[network: {allowed} is not reached: the program asks for other.example there, which is another host]"
    );
    assert!(said.contains(&told) && !said.contains("\nin\n"), "{said}");
}

#[test]
fn git_goes_over_ssh_through_the_tunnel() {
    // It wants to be called by its whole path.
    let sshd = "/usr/sbin/sshd";
    if !(has(sshd) && has("git") && has("ssh")) {
        return eprintln!("skipped: sshd, ssh or git is not installed");
    }
    let dir = tempfile::TempDir::with_prefix("agent-ssh-").expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    for key in ["host", "user"] {
        run(
            "ssh-keygen",
            &["-q", "-t", "ed25519", "-N", "", "-f", key],
            dir.path(),
        );
    }
    run(
        "sh",
        &[
            "-c",
            "git init -q -b main work && git -C work -c user.name=A -c user.email=a@example.org commit -q --allow-empty -m 'the first' && git clone -q --bare work repo.git",
        ],
        dir.path(),
    );
    let port = crate::http::free_port();
    let settings = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n",
        at("host"),
        at("user.pub")
    );
    fs::write(dir.path().join("sshd_config"), settings).expect("own directory");
    // It wants an empty directory to hide in.
    let _ = fs::create_dir_all("/run/sshd");
    let _server = Program(
        Command::new(sshd)
            .args(["-D", "-e", "-f", &at("sshd_config")])
            .stderr(fs::File::create(dir.path().join("log")).expect("own directory"))
            .spawn()
            .expect("it starts"),
    );
    wait_for("sshd", super::SOON, || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    });
    let allowed = format!("localhost:{port}");
    let (model, sandbox) = home(std::slice::from_ref(&allowed));
    let key = fs::read(dir.path().join("user")).expect("a key");
    sandbox.put("workspace/.ssh/id_ed25519", &key);
    let _daemon = sandbox.ready();
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid())
        .ok()
        .flatten()
        .expect("a user")
        .name;
    let clone = |host: &str| {
        let command = format!(
            "rm -rf got; HOME=$PWD git clone -q ssh://{user}@{host}{}/repo.git got && git -C got log --format=%s",
            dir.path().display()
        );
        exec(&sandbox, &model, &command)
    };
    let log = || fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    let said = clone(&allowed);
    assert!(said.contains("the first"), "{said}\n{}", log());
    // By itself it is run the same way.
    let said = exec(
        &sandbox,
        &model,
        &format!("HOME=$PWD; eval \"$GIT_SSH_COMMAND -p {port} {user}@localhost echo hello\""),
    );
    assert!(said.contains("hello"), "{said}\n{}", log());
    let said = clone("localhost:1");
    assert!(
        said.contains("HTTP/1.1 403") && said.contains("[network: localhost:1 is not "),
        "{said}"
    );
}
