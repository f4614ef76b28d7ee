// Code points of UTF-8 text.
#pragma once
#include <string>
#include <string_view>

namespace kinora::text {

// Takes the first code point from `text`, which must not be empty. A byte that begins none is U+FFFD by
// itself.
char32_t take(std::string_view& text);
// Bytes of the first code point of `text`, which must not be empty.
size_t length_of_first(std::string_view text);
void append(std::string& to, char32_t c);
// Without bytes that are not UTF-8: each is U+FFFD.
std::string valid_utf8(std::string_view bytes);

bool is_white_space(char32_t c);  // Unicode's White_Space
bool is_control(char32_t c);      // Cc, Cf, Co, Cs but tab, line feed and carriage return
bool is_punctuation(char32_t c);  // P, and ASCII's symbols
bool is_numeric(char32_t c);      // N
bool is_mark(char32_t c);         // M
bool is_non_spacing_mark(char32_t c);
bool is_ideograph(char32_t c);  // the blocks that BERT's tokenizer names; no kana, no Hangul

enum class Form { nfc, nfd, nfkc, nfkd };
std::string normal_form(std::string_view text, Form form);
// Character by character, without the rules that depend on neighbours (final sigma).
std::string lower_case(std::string_view text);
// Bytes of the first extended grapheme cluster of `text`, which must not be empty.
size_t length_of_grapheme(std::string_view text);

}  // namespace kinora::text
