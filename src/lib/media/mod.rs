//! Types and content of files: the type of a file by its bytes, its text, the text of a PDF, pictures for a model and their
//! descriptions; and the place of received files.

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
pub use pdf::{PDF_ARG, pdf, pdf_main};
pub use pictures::Pictures;
pub use sniff::{Kind, sniff, sound_ending};
