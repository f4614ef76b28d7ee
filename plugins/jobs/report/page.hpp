// Builds the report: one HTML file that needs no other file, no network and no script.
#pragma once
#include <string>

#include "plugins/jobs/report/record.hpp"
#include "plugins/jobs/report/stills.hpp"

namespace kinora::core::report {

struct Made {
  std::string page;
  std::string line;  // summary of the run in plain text: "1 source video, 12 shots, ..."
};

// Calls `still` for a picture of every displayed shot.
Made make_page(const RunRecord& run, StillSource still);

// The style sheet of the page.
const char* style_sheet();

}  // namespace kinora::core::report
