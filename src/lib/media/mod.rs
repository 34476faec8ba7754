//! Types and content of files: the kind of a file by its bytes, its text, the text of a PDF,
//! pictures as a model is sent them, and what they appear as in words; and where received files are kept.

mod decode_text;
pub mod descriptions;
mod first_frame;
pub mod inbox;
mod inspect;
mod pdf;
mod pictures;
mod sniff;

pub use decode_text::text;
pub use first_frame::{Films, FrameError};
pub use inspect::{Content, look};
pub use pdf::{PDF_ARG, Pdf, pdf, pdf_main};
pub use pictures::Pictures;
pub use sniff::{Kind, sniff, sound_ending};
