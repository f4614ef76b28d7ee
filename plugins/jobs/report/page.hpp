// Builds the report: one HTML file that needs no other file and no network.
#pragma once
#include <string>
#include <string_view>

#include "plugins/jobs/report/record.hpp"
#include "plugins/jobs/report/stills.hpp"

namespace kinora::core::report {

// The data that the page shows, and the run in one line of plain text: "1 source video, 12 shots, ...".
struct Gathered {
  json data;
  std::string line;
};
// Calls `still` for a picture of every displayed shot.
Gathered gather(const RunRecord& run, StillSource still);

// The page with the data in it. The line is written as markup: it contains only words of this program and numbers.
std::string make_page(const Gathered&);

// JSON as text that an HTML script element can contain: ASCII without "<", whatever the data.
std::string script_safe(const json& data);

}  // namespace kinora::core::report
