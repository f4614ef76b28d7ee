// Sequences of bytes that were UTF-8 before a program changed some of them, as ftfy 6.3 finds them.
#pragma once
#include <optional>
#include <string>

namespace kinora::text {

// Whether a byte A0 of a UTF-8 sequence was taken for a blank: ALTERED_UTF8_RE.
bool has_lost_a0(const std::string& bytes);
// With these bytes, and a blank after "à" as a word of its own: restore_byte_a0().
std::string restored_a0(const std::string& bytes);
// Each sequence that lost a byte to 0x1A (U+FFFD) or a question mark is U+FFFD: replace_lossy_sequences().
std::string without_lossy_sequences(const std::string& bytes);
// The same bytes if they are UTF-8; CESU-8's pairs of surrogates and Java's C0 80 count as UTF-8, and become
// it. Nothing for other bytes.
std::optional<std::string> decoded_variants(const std::string& bytes);

}  // namespace kinora::text
