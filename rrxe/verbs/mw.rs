// SPDX-License-Identifier: GPL-2.0

//! Memory windows.

use super::{
    limits,
    Device,
    Provider, //
};
use crate::{
    datapath::window::Window,
    kapi::{
        random,
        rdma::{
            self,
            MwType, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rrxe_proto::{
    mw::WindowType,
    Key, //
};

/// The place of a [`Window`] among those that are found: given up with it.
pub(crate) struct Allocation {
    device: Arc<Device>,
    key: Key,
}

impl rdma::MemoryWindow<Provider> for Allocation {
    fn create(pd: &rdma::Pd<Provider>, mw_type: MwType) -> Result<Self> {
        let window_type = match mw_type {
            MwType::One => WindowType::One,
            MwType::Two => WindowType::Two,
        };
        let device = pd.device().data().clone();
        let place = device
            .node()
            .windows()
            .reserve(limits::MW_INDICES, GFP_KERNEL)?;
        // As for regions: a stale key shall not fit.
        let [tag] = random::bytes();
        let key = Key::new(place.id(), tag);
        place.publish(Window::new(window_type, key, pd.id())?)?;
        Ok(Self { device, key })
    }

    fn rkey(&self) -> u32 {
        self.key.0
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.device.node().windows().remove(self.key.index());
    }
}
