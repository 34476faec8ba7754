//! What files are and what they say: the kind of a file by its bytes, its text, the text of a PDF,
//! and pictures as a model is sent them.

mod look;
mod pdf;
mod pictures;
mod sniff;
mod text;

pub use look::{Content, Seen, look};
pub use pdf::{PDF_ARG, Pdf, pdf, pdf_main};
pub use pictures::Pictures;
pub use sniff::{Kind, sniff};
pub use text::{is_text_name, text};
