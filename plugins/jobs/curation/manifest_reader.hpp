// Manifests of videos that the user writes.
//
//   {"url": "a.mp4", "caption": "A boat at sea.", "key": "boat", "licence": "CC0"}      a line of JSONL
//   path,caption,licence                                                               the head of a CSV
//
// `url` or `path` names the video, `caption` is the user's own (it overrides any stage's), `key` names the
// sample; every other column is kept in json["user"].
#pragma once
#include <functional>
#include <string>

#include "plugins/jobs/curation/inputs.hpp"

namespace kinora::core {

// Calls `row` with url, caption, user and, if given, key set, or with `error`, which names the line, and a url that
// identifies it. Skips blank lines. Returns messages about columns that are one letter away from the four: they are
// kept as user columns, but may be misspelt.
std::vector<std::string> read_jsonl_manifest(const std::string& text, const std::string& name,
                                             const std::function<void(Input)>& row);

// Every value is kept as text and written out unchanged: stages that need a number (filter.facts) parse it, quoted or
// not. Throws kinora::Error if the header has neither url nor path, or two columns with the same name, or cannot be
// read.
std::vector<std::string> read_csv_manifest(const std::string& text, const std::string& name,
                                           const std::function<void(Input)>& row);

}  // namespace kinora::core
