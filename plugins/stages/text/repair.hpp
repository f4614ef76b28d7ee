// Repairs a text as ftfy.fix_text of ftfy 6.3.1 does with its defaults, which Wan's code and diffusers apply to
// prompts: UTF-8 that was read in another encoding, HTML's references, curly quotes, ligatures, full and half
// width, line ends, terminal and control characters, Unicode's form NFC.
#pragma once
#include <string>
#include <string_view>

namespace kinora::text {

// text: UTF-8; other bytes count as U+FFFD. ftfy's repair of lone surrogates has no counterpart, because UTF-8
// has none.
std::string repaired(std::string_view text);

}  // namespace kinora::text
