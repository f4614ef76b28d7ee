// Manifests of films that the user writes.
//
//   {"url": "a.mp4", "caption": "A boat at sea.", "key": "boat", "licence": "CC0"}      a line of JSONL
//   path,caption,licence                                                               the head of a CSV
//
// `url` or `path` names the film, `caption` is the user's own (it wins over any stage's), `key` names the
// sample; every other column is carried along in json["user"].
#pragma once
#include <functional>
#include <string>

#include "plugins/jobs/curation/inputs.hpp"

namespace kinora::core {

// Calls `row` with url, caption, user and, perhaps, key set, or with `error`, which names the line, and a url
// that stands for it. Blank lines do not count. What to say of columns that are one letter away from the four: they are
// carried along, and may be meant as one of these.
std::vector<std::string> read_jsonl_manifest(const std::string& text, const std::string& name,
                                             const std::function<void(Input)>& row);

// Every value is text, as it stands there, and comes out again so: a number in a column is a number to stages that ask
// for one (filter.facts), whether it stands in quotes or not. Throws kinora::Error if the head has neither url nor
// path, or two columns of one name, or cannot be read.
std::vector<std::string> read_csv_manifest(const std::string& text, const std::string& name,
                                           const std::function<void(Input)>& row);

}  // namespace kinora::core
