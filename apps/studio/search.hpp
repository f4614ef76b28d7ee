// Searches captions by words.
#pragma once
#include "apps/studio/query.hpp"

namespace kinora::studio {

// Every word of the text must begin a word of the clip's caption, key or reason, ignoring case. Whole
// words count twice as much as beginnings, and rare words more than common ones (inverse document frequency);
// ties are in the catalogue's order.
std::vector<size_t> search_words(const Catalogue&, const EditsOf&, const std::string& text);

}  // namespace kinora::studio
