// Suggests the word that was probably meant.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace kinora::core {

// Number of edits (insert, delete, replace, swap of neighbours) from a to b, ignoring case and '-', '_', '.'.
size_t edit_distance(std::string_view a, std::string_view b);

// The nearest candidate, or "" if none is near: at most one edit per three letters.
std::string suggest(std::string_view word, const std::vector<std::string>& candidates);

// ", did you mean 'steps'?" or "": the end of an error message.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// The same, or "; kinds: stage, loss" if nothing is near.
std::string did_you_mean_or_list(std::string_view word, const std::vector<std::string>& candidates,
                                 std::string_view what);

}  // namespace kinora::core
