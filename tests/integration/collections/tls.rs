//! TLS before a PostgreSQL that was built without: what the server itself would say, with certificates made by openssl.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What a client that wants TLS begins with (PostgreSQL 18, 54.7, SSLRequest).
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Two authorities, and what the first signed, for `localhost`.
const CERTIFICATES: &str = r#"
for name in ca other; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$name" \
        -addext keyUsage=critical,keyCertSign -keyout $name.key -out $name.pem
done
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout server.key -out server.csr
printf 'subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n' >server.ext
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile server.ext -out server.pem
"#;

/// Certificates in a directory that goes with this.
pub(super) struct Certificates(tempfile::TempDir);

impl Certificates {
    pub(super) fn make() -> Self {
        let place = tempfile::tempdir().expect("a directory");
        let made = Command::new("sh")
            .args(["-ec", CERTIFICATES])
            .current_dir(place.path())
            .output()
            .expect("sh starts");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}");
        Self(place)
    }

    /// Returns the certificate of the authority that signed that of the server.
    pub(super) fn authority(&self) -> PathBuf {
        self.0.path().join("ca.pem")
    }

    /// Returns that of one that signed nothing.
    pub(super) fn other_authority(&self) -> PathBuf {
        self.0.path().join("other.pem")
    }

    fn settings(&self) -> Arc<ServerConfig> {
        let file = |name: &str| self.0.path().join(name);
        let certificate = CertificateDer::from_pem_file(file("server.pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(file("server.key")).expect("a key");
        let settings = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key);
        Arc::new(settings.expect("they belong together"))
    }
}

/// Returns a port that leads to the server at `port`: with TLS by `certificates`, or without any.
pub(super) fn front(port: u16, certificates: Option<&Certificates>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it can");
    let own_port = listener.local_addr().expect("an address").port();
    let acceptor = certificates.map(|some| TlsAcceptor::from(some.settings()));
    // It ends with the process.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            while let Ok((peer, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move { serve(peer, port, acceptor).await });
            }
        });
    });
    own_port
}

async fn serve(mut peer: TcpStream, port: u16, acceptor: Option<TlsAcceptor>) -> io::Result<()> {
    let mut asked = [0; 8];
    peer.read_exact(&mut asked).await?;
    assert_eq!(asked, SSL_REQUEST, "the client speaks without TLS");
    let Some(acceptor) = acceptor else {
        peer.write_all(b"N").await?;
        let left = peer.read(&mut asked).await?;
        assert_eq!(left, 0, "the client goes on without TLS");
        return Ok(());
    };
    peer.write_all(b"S").await?;
    let mut secret = acceptor.accept(peer).await?;
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    tokio::io::copy_bidirectional(&mut secret, &mut server)
        .await
        .map(drop)
}

/// Returns the settings of a collection `docs` at `host:port` over TLS.
pub(super) fn settings(host: &str, port: u16, authority: Option<&Path>) -> String {
    let authority = authority.map(|path| format!("&sslrootcert={}", path.display()));
    format!(
        "[memory.collections.docs]\nurl = \"postgres://agent@{host}:{port}/knowledge?sslmode=verify-full{}\"\npassword_env = \"DOCS_PASSWORD\"\n",
        authority.unwrap_or_default()
    )
}
