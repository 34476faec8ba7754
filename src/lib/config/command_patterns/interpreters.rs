//! Programs that run other programs or code, by their names without version. Allowing one of them allows everything. The
//! list cannot be complete: it is a convenience; protection comes from the sandbox.

/// Names between blanks.
const RUNNERS: &[&str] = &[
    // shells, and what in them runs a text
    "sh bash rbash dash ash zsh fish ksh mksh csh tcsh yash busybox toybox pwsh nu xonsh elvish eval exec command \
     builtin source . trap alias export set unset enable coproc printf test read wait let mapfile readarray \
     compgen local readonly",
    // interpreters
    "python pypy ipython perl ruby irb node nodejs deno bun lua luajit php tclsh wish expect awk gawk mawk nawk \
     sed gsed jshell java scala groovy kotlin guile racket sbcl clisp emacs ghc runghc ghci ocaml julia R Rscript \
     octave gnuplot gdb lldb dc m4 erl elixir iex osascript wasmtime wasmer qemu wine ts-node tsx sqlite psql \
     mysql mariadb redis-cli",
    // wrappers: their argument is a program
    "env sudo sudoedit doas su runuser pkexec xargs parallel find fd fdfind timeout nice ionice chrt taskset \
     nohup setsid stdbuf unbuffer watch script scriptreplay ssh sshpass scp sftp rsync rsh telnet time chroot \
     unshare nsenter setpriv capsh prlimit flock strace ltrace perf valgrind ld.so ld-linux-x86-64.so ld-linux-aarch64.so \
     fakeroot faketime firejail bwrap systemd-run systemctl at batch crontab run-parts start-stop-daemon \
     daemonize tmux screen dtach socat nc ncat netcat xvfb-run dbus-run-session gio xdg-open open entr \
     inotifywait watchexec hyperfine setarch linux linux64 i386 choom catchsegv proot direnv mise asdf nix nix-shell \
     guix docker podman kubectl lxc machinectl ip tcpdump openssl logsave rlwrap ssh-agent dpkg apt apt-get \
     rpm yum dnf pacman snap flatpak",
    // builders and package managers: their orders are files of the workspace
    "make gmake bmake cmake ninja meson just task rake ant mvn gradle sbt bazel scons tup cargo rustc rustup go \
     npm npx yarn pnpm pnpx corepack pip pipx uv uvx poetry conda gem bundle composer mix cabal stack dune opam \
     gcc g++ cc c++ clang clang++ ld tox nox pytest pre-commit ansible ansible-playbook terraform vagrant",
    // an option of theirs, or a file in the directory, names a program, or a key leads to a shell
    "git tar bsdtar gtar zip sort split cpio rg wget vi vim nvim vim.basic view vimdiff editor pager ex ed red nano pico joe mc less more \
     most man info ranger vifm nnn top htop mail mutt ftp lftp gpg hg svn bzr jj gh ctags pandoc latex pdflatex \
     xelatex lualatex tex gs convert magick ffmpeg install journalctl",
];

/// Returns whether a program is one of them; `python3.12` is `python`.
pub(super) fn is_runner(name: &str) -> bool {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || ".-_".contains(c));
    let mut runners = RUNNERS
        .iter()
        .flat_map(|line| line.split_ascii_whitespace());
    runners.any(|runner| runner.eq_ignore_ascii_case(name) || runner.eq_ignore_ascii_case(bare))
}
