//! A bounded queue with many producers and one consumer. An empty queue takes almost no memory, so that hundreds of idle
//! connections are cheap.

use crossbeam_queue::SegQueue;

pub(crate) struct Queue<T> {
    items: SegQueue<T>,
    capacity: usize,
}

impl<T> Queue<T> {
    /// Creates a queue for about `capacity` items: concurrent producers may exceed it by their number.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { items: SegQueue::new(), capacity }
    }

    /// Adds an item, or returns it if the queue is full.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        if self.items.len() >= self.capacity {
            return Err(item);
        }
        self.items.push(item);
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.items.pop()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
