// kind = "report": one self-contained page about the run.
#include "core/build_info.hpp"
#include "core/config/document.hpp"
#include "core/io/atomic_file.hpp"
#include "core/run/job_plugin.hpp"
#include "plugins/jobs/report/page.hpp"
#include "plugins/jobs/report/pictures.hpp"

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

namespace {

report::JobRecord record_of(const JobContext& context, const JobSpec& job) {
  report::JobRecord record;
  record.name = job.name;
  record.kind = job.kind->name;
  record.folder = context.folder_of(job);
  record.options = job.options;
  for (const auto& use : job.components)
    record.components.push_back({use.slot, use.id, use.version, use.options.values()});
  report::read_results(record);
  return record;
}

}  // namespace

void Report::run(JobContext& context) const {
  const auto options = context.options<ReportOptions>();
  const RunFile& run = context.run();
  report::RunRecord record;
  record.title = options.title.empty() ? run.name : options.title;
  record.version = KINORA_VERSION;
  record.file = run.file.filename().string();
  record.toml = [&] {
    const auto text = read_toml(run.file);
    return text ? *text : std::string();
  }();
  record.seed = run.seed;
  for (const auto& job : run.jobs)
    if (job.kind != context.spec().kind) record.jobs.push_back(record_of(context, job));

  report::Gathered gathered = report::gather(record, report::Stills(context.runtime().registry()));
  const std::string page = report::make_page(gathered);
  or_throw(write_file_atomically(run.out / "report.html", page));
  gathered.data["run"] = "../";  // the folder of the run's jobs, as links of this copy name it
  or_throw(write_file_atomically(context.folder() / "report.html", report::make_page(gathered)));
  context.summary["results"]["../report.html"] = page.size();
  context.summary["bytes"] = page.size();
  context.summary["line"] = gathered.line;
}

}  // namespace kinora::core

using kinora::core::Report;
KINORA_JOB(Report)
KINORA_PLUGIN(Report)
