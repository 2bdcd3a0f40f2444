//! The HTML report: the file, its data and its page in a real browser.

mod sample;

use sample::Sample;

#[test]
fn dev_write() {
    let sample = Sample { questions: 60, models: 4, judges: 2, replicates: 3 };
    std::fs::write("/tmp/e/sample.html", sample.html()).unwrap();
    let sample = Sample { questions: 250, models: 4, judges: 1, replicates: 1 };
    let html = sample.html();
    eprintln!("{} units {} bytes", sample.units(), html.len());
    std::fs::write("/tmp/e/sample1000.html", html).unwrap();
}
