//! A queue from many to one that takes room only for what waits in it: a hundred idle connections cost next to nothing.

use crossbeam_queue::SegQueue;

pub(crate) struct Queue<T> {
    waiting: SegQueue<T>,
    most: usize,
}

impl<T> Queue<T> {
    /// A queue for about `most`: those who push at the very same time may exceed it by their own number.
    pub(crate) fn new(most: usize) -> Self {
        Self { waiting: SegQueue::new(), most }
    }

    /// Adds to the end; gives back what finds no room.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        if self.waiting.len() >= self.most {
            return Err(item);
        }
        self.waiting.push(item);
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.waiting.pop()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
