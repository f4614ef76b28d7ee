// Cleans captions as Wan and diffusers do: repairs them (repair.hpp), resolves HTML's character references twice
// and collapses white space.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace kinora::text {

// Resolves "&amp;", "&#233;" and "&notit;" in text as HTML 5 (html.spec.whatwg.org, 13.2.5.72) and Python's
// html.unescape do.
std::string unescaped(std::string_view text);
// The text that HTML has for "NAME" or "NAME;" after "&".
std::optional<std::string_view> entity_named(std::string_view name);
// Replaces runs of white space by one blank and removes them at the ends.
std::string collapsed(std::string_view text);
std::string cleaned(std::string_view text);

}  // namespace kinora::text
