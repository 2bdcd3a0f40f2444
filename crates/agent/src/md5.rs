//! MD5, the key of prompts in existing trace files. Not used for security, and in one place only: hence no dependency.

/// The rotations of the steps in each of the four rounds.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// Returns the MD5 digest of a text in hexadecimal digits (RFC 1321).
pub(crate) fn hex_digest(text: &str) -> String {
    let mut message = text.as_bytes().to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend((text.len() as u64 * 8).to_le_bytes());
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in message.chunks_exact(64) {
        absorb(&mut state, block);
    }
    state.map(|word| format!("{:08x}", word.swap_bytes())).concat()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the constants are 32 bits of sines"
)]
fn absorb(state: &mut [u32; 4], block: &[u8]) {
    let word = |at: usize| u32::from_le_bytes([block[4 * at], block[4 * at + 1], block[4 * at + 2], block[4 * at + 3]]);
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64_usize {
        let (mixed, at) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), 7 * step % 16),
        };
        let constant = ((step as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(word(at));
        a = d;
        d = c;
        c = b;
        b = b.wrapping_add(sum.rotate_left(ROTATIONS[step / 16][step % 4]));
    }
    for (word, mixed) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(mixed);
    }
}

#[cfg(test)]
mod tests {
    use super::hex_digest;

    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(hex_digest(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex_digest("abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex_digest("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        let digits = "1234567890".repeat(8);
        assert_eq!(hex_digest(&digits), "57edf4a22be3c955ac49da2e2107b67a");
        let lengths = [55, 56, 63, 64, 65].map(|length| hex_digest(&"a".repeat(length)));
        assert_eq!(
            lengths,
            [
                "ef1772b6dff9a122358552954ad0df65",
                "3b0c8ac703f828b04c6c197006d17218",
                "b06521f39153d618550606be297466d5",
                "014842d480b571495a4a0363793f7367",
                "c743a45e0d2e6a95cb859adae0248435",
            ]
        );
    }
}
