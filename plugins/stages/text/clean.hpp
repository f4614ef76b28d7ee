// Captions as Wan reads them: HTML's character references resolved, twice, and white space collapsed.
#pragma once
#include <string>
#include <string_view>

namespace kinora::text {

// As HTML 5 resolves "&amp;", "&#233;" and "&notit;" in text (html.spec.whatwg.org, 13.2.5.72), and Python's
// html.unescape.
std::string unescaped(std::string_view text);
// Runs of white space are one blank, at the ends none.
std::string collapsed(std::string_view text);
std::string cleaned(std::string_view text);

}  // namespace kinora::text
