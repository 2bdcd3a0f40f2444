//! Recognizes web pages, which arrive instead of JSON if a URL is wrong or a proxy answers for the provider.

/// How much of a response is searched for its title.
const SEARCHED_BYTES: usize = 16 * 1024;

/// Returns a description of a response that is a web page; `None` for any other response.
pub(super) fn describe(content: &str) -> Option<String> {
    let start = content.trim_start_matches('\u{feff}').trim_start();
    let begins = |prefix: &str| start.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix));
    if !["<!doctype html", "<html", "<head", "<body"].into_iter().any(begins) {
        return None;
    }
    let end = (0..=start.len().min(SEARCHED_BYTES)).rev().find(|end| start.is_char_boundary(*end)).unwrap_or(0);
    let searched = &start[..end];
    let title = text_of(searched, "title").or_else(|| text_of(searched, "h1"));
    Some(match title {
        Some(title) => format!("the response is a web page: {title}"),
        None => "the response is a web page".to_owned(),
    })
}

/// Returns the text of the first element with this name, without tags.
fn text_of(page: &str, element: &str) -> Option<String> {
    // Lowercase ASCII has the same offsets.
    let lower = page.to_ascii_lowercase();
    let tag = lower.find(&format!("<{element}"))?;
    let open = tag + lower[tag..].find('>')? + 1;
    let close = open + lower[open..].find(&format!("</{element}"))?;
    let mut text = String::new();
    let mut is_tag = false;
    for character in page[open..close].chars() {
        match character {
            '<' => is_tag = true,
            '>' => is_tag = false,
            other if !is_tag => text.push(other),
            _ => {}
        }
    }
    let text = super::brief(&text, "");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_web_page_is_described_by_its_title_or_heading() {
        let page = |text: &str| describe(text).map(|text| text.replace("the response is a web page", "page"));
        assert_eq!(page("<!DOCTYPE html>\n<HTML><Title>Open\n WebUI</title>").as_deref(), Some("page: Open WebUI"));
        assert_eq!(page("\u{feff} <html><h1 class=x>Bad <b>Gateway</b></h1>").as_deref(), Some("page: Bad Gateway"));
        assert_eq!(page("<html><title>never closed").as_deref(), Some("page"));
        assert_eq!(page(&format!("<html>{}<title>far</title>", "é".repeat(SEARCHED_BYTES))).as_deref(), Some("page"));
        for other in ["", "{}", "<xml>", "404 page not found", "é"] {
            assert_eq!(page(other), None, "{other}");
        }
    }
}
