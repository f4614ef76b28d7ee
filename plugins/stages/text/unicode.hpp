// Operations on code points of UTF-8 text.
#pragma once
#include <string>
#include <string_view>

namespace kinora::text {

// Removes and returns the first code point of `text`, which must not be empty. A byte that begins no code
// point counts as U+FFFD.
char32_t take(std::string_view& text);
// Bytes of the first code point of `text`, which must not be empty.
size_t length_of_first(std::string_view text);
void append(std::string& to, char32_t c);
// Replaces each byte that is not UTF-8 by U+FFFD.
std::string valid_utf8(std::string_view bytes);

bool is_white_space(char32_t c);  // Unicode's White_Space
bool is_control(char32_t c);      // Cc, Cf, Co, Cs except tab, line feed and carriage return
bool is_punctuation(char32_t c);  // P, and ASCII's symbols
bool is_numeric(char32_t c);      // N
bool is_mark(char32_t c);         // M
bool is_non_spacing_mark(char32_t c);
bool is_ideograph(char32_t c);  // the blocks listed by BERT's tokenizer, without kana and Hangul

enum class Form { nfc, nfd, nfkc, nfkd };
std::string normal_form(std::string_view text, Form form);
// Maps each character by itself, without rules that depend on neighbours (final sigma).
std::string lower_case(std::string_view text);
// Bytes of the first extended grapheme cluster of `text`, which must not be empty.
size_t length_of_grapheme(std::string_view text);

}  // namespace kinora::text
