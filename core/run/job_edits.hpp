// The user's edits and views in the folder of a curate job, to which the studio appends: edits.jsonl and views.jsonl.
// They are kept when the results are replaced.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::core {

// Whether a file of a job's folder has this name for them.
bool is_edits(std::string_view name);
// How many edits people have made.
int64_t edits_in(const std::filesystem::path& folder);
// Copies the edits of one folder over those of another. A person removed a file that is missing in the first.
void copy_edits(const std::filesystem::path& from, const std::filesystem::path& to);
// For a folder that is gone, or that a killed process had not filled yet: takes the newest edits of the folders set
// aside, with a line in the log under the job's name.
void find_edits(const std::string& job, const std::filesystem::path& folder,
                const std::vector<std::filesystem::path>& aside);

}  // namespace kinora::core
