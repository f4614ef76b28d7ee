// kind = "report": one self-contained page about the run.
#pragma once
#include "core/run/job_plugin.hpp"

namespace kinora::core {

struct ReportOptions {
  std::string title;
  static void describe(Describe<ReportOptions>& d) {
    d.name("report").help("Writes report.html, one file that shows what every job did");
    d.option("title", &ReportOptions::title).help("title of the page; empty: the run's name");
  }
};

class Report final : public JobType {
 public:
  using Options = ReportOptions;
  static JobParts parts() { return {.needs_input = false}; }
  void run(JobContext&) const override;
};

}  // namespace kinora::core
