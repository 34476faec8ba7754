//! Ways over sockets: this machine's services, the net, sockets with names, queues and shared memory.

use std::{
    net::{TcpListener, UdpSocket},
    os::{linux::net::SocketAddrExt as _, unix::net as unix},
    path::Path,
    process::Command,
};

use super::{Jail, behind_each_wall};

behind_each_wall!(
    services_of_this_machine,
    sockets_with_names,
    other_families,
    shared_memory_and_queues
);

fn python(code: &str) -> String {
    format!("/usr/bin/python3 - <<'END'\nimport os, socket, struct\n{code}\nEND")
}

fn services_of_this_machine(mut jail: Jail) {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    tcp.set_nonblocking(true).expect("own socket");
    udp.set_nonblocking(true).expect("own socket");
    let (port, uport) = (
        tcp.local_addr().expect("own").port(),
        udp.local_addr().expect("own").port(),
    );
    jail.attempts(&[
        ("TCP to this machine", &format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; exec 4<>/dev/tcp/localhost/{port}'")),
        ("UDP to this machine", &format!("bash -c 'echo x >/dev/udp/127.0.0.1/{uport}'")),
        ("curl", &format!("curl -s -m 2 http://127.0.0.1:{port}/; wget -q -T 2 -t 1 -O- http://127.0.0.1:{port}/")),
    ]);
    let addresses = ["127.0.0.1", "0.0.0.0", "127.1.2.3"];
    for address in addresses {
        jail.attempt(
            &format!("TCP to {address}"),
            &python(&format!("socket.create_connection(('{address}', {port}), 2).send(b'GET / HTTP/1.0\\r\\n\\r\\n')")),
        );
    }
    jail.attempt(
        "UDP, connected",
        &python(&format!("s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', {uport}))")),
    );
    jail.attempt(
        "TCP fast open",
        &python(&format!(
            "s=socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', {port}))"
        )),
    );
    jail.attempt(
        "the net",
        &python("socket.create_connection(('192.0.2.1', 80), 1); open('opened-net','w')"),
    );
    jail.attempt("names", &python("open('opened-dns','w').write(str(socket.getaddrinfo('example.org', 80))) if socket.getaddrinfo('example.org', 80) else 0"));
    assert!(tcp.accept().is_err(), "somebody connected");
    assert!(udp.recv(&mut [0; 9]).is_err(), "somebody sent something");
}

fn sockets_with_names(mut jail: Jail) {
    let home = jail.sandbox.home();
    let name = format!("agent-escape-{}-{}", std::process::id(), jail.pid());
    let address = unix::SocketAddr::from_abstract_name(&name).expect("short enough");
    let listeners = [
        unix::UnixListener::bind_addr(&address).expect("a free name"),
        unix::UnixListener::bind(home.join("docker.sock")).expect("a free path"),
        unix::UnixListener::bind(home.with_file_name("mine").join("bus")).expect("a free path"),
    ];
    let datagrams = unix::UnixDatagram::bind(home.join("state/notify")).expect("a free path");
    listeners
        .iter()
        .for_each(|listener| listener.set_nonblocking(true).expect("own socket"));
    datagrams.set_nonblocking(true).expect("own socket");
    jail.before = jail.outside();
    let connect = |to: &str| {
        python(&format!(
            "s=socket.socket(socket.AF_UNIX); s.connect({to}); s.send(b'x')"
        ))
    };
    jail.attempt("an abstract socket", &connect(&format!("'\\0{name}'")));
    for path in [
        home.join("docker.sock"),
        home.with_file_name("mine").join("bus"),
    ] {
        let path = path.display();
        jail.attempt("a socket by its path", &connect(&format!("'{path}'")));
        jail.attempt(
            "a socket by a link",
            &format!("ln -sf {path} sock\n{}", connect("'sock'")),
        );
        jail.attempt(
            "a socket by /proc",
            &connect(&format!("'/proc/{}/root{path}'", jail.pid())),
        );
    }
    jail.attempt(
        "datagrams",
        &python(&format!(
            "s=socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'x', '{}/state/notify')",
            home.display()
        )),
    );
    jail.attempts(&[("D-Bus, docker and systemd", "for s in /run/docker.sock /var/run/docker.sock /run/dbus/system_bus_socket /run/systemd/private /run/user/0/bus; do curl -s -m 2 --unix-socket $s http://x/ && touch opened-socket; done; true")]);
    assert!(
        listeners.iter().all(|listener| listener.accept().is_err()),
        "somebody connected"
    );
    assert!(
        datagrams.recv(&mut [0; 9]).is_err(),
        "somebody sent something"
    );
}

fn other_families(mut jail: Jail) {
    jail.doors(&[
        "vsock",
        "packet",
        "crypto",
        "bluetooth",
        "netlink-generic",
        "netlink-audit",
        "xdp",
    ]);
    jail.attempts(&[
        ("ping", "ping -c1 -W1 192.0.2.1 && touch opened-ping; true"),
        ("routes", "ip link add dummy0 type dummy && touch opened-link; ip route add default dev lo && touch opened-route; true"),
        ("packet filters", "iptables -F && touch opened-iptables; nft flush ruleset && touch opened-nft; true"),
    ]);
}

fn shared_memory_and_queues(mut jail: Jail) {
    let name = format!("agent-escape-{}", jail.pid());
    jail.attempt(
        "/dev/shm",
        &format!(
            "echo x >/dev/shm/{name}; ls /dev/shm | grep -v {name} | grep . && touch opened-shm"
        ),
    );
    jail.attempt("/tmp", &format!("echo x >/tmp/{name}; ls /tmp | grep -v -e {name} -e agent-test | grep . && touch opened-tmp"));
    jail.attempt(
        "System V memory",
        "ipcmk -M 4096; ipcs -m | grep -c 0x | grep -v -e '^0' -e '^1' && touch opened-ipcs",
    );
    jail.attempt("System V queues", "ipcmk -Q; ipcmk -S 1; true");
    jail.attempt(
        "POSIX queues",
        &python(&format!(
            "import ctypes\nctypes.CDLL(None).mq_open(b'/{name}', 0o102, 0o600, None)"
        )),
    );
    for dir in ["/dev/shm", "/tmp", "/dev/mqueue"] {
        assert!(!Path::new(dir).join(&name).exists(), "{dir}");
    }
    let queues = Command::new("ipcs")
        .arg("-q")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    assert!(
        !queues.unwrap_or_default().contains("0x"),
        "a queue of a command is the machine's"
    );
}
