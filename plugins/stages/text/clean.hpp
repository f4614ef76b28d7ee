// Cleans captions as Wan does: resolves HTML's character references twice and collapses white space.
#pragma once
#include <string>
#include <string_view>

namespace kinora::text {

// Resolves "&amp;", "&#233;" and "&notit;" in text as HTML 5 (html.spec.whatwg.org, 13.2.5.72) and Python's
// html.unescape do.
std::string unescaped(std::string_view text);
// Replaces runs of white space by one blank and removes them at the ends.
std::string collapsed(std::string_view text);
std::string cleaned(std::string_view text);

}  // namespace kinora::text
