// SPDX-License-Identifier: GPL-2.0

//! What the fuzz targets do with an input: a peer's packets, or a user's queue elements.
//!
//! Each module is one target. It feeds the code as the data path does, and panics if something is
//! not as it always must be.

pub mod completer;
pub mod parser;
pub mod responder;
pub mod wqe;

mod packet;

#[path = "../../ring/src/shmem.rs"]
#[allow(dead_code)]
mod shmem;

mod kapi {
    pub(crate) use crate::{shmem, shmem as rdma};
}

#[path = "../../../rrxe/ring/mod.rs"]
#[allow(dead_code, unused_imports)]
mod ring;

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// Runs a target over its corpus.
    fn replay(name: &str, target: fn(&[u8])) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        let mut files = 0;
        for entry in fs::read_dir(&corpus).unwrap() {
            target(&fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files > 10, "{} has {files} files", corpus.display());
    }

    #[test]
    fn the_parser_survives_its_corpus() {
        replay("parser", crate::parser::run);
    }

    #[test]
    fn the_responder_survives_its_corpus() {
        replay("responder", crate::responder::run);
    }

    #[test]
    fn the_completer_survives_its_corpus() {
        replay("completer", crate::completer::run);
    }

    #[test]
    fn the_validation_of_wqes_survives_its_corpus() {
        replay("wqe", crate::wqe::run);
    }
}
