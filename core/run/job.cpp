#include "core/run/job.hpp"

#include <set>

#include "core/base/cancel.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/fence.hpp"
#include "core/plugin/opening.hpp"
#include "kinora/error.hpp"

namespace kinora::core {

Metrics::Metrics(const std::filesystem::path& file) : file_(file), out_(file, std::ios::app) {
  if (!out_)
    throw Error(KINORA_ERROR_IO,
                file.string() + ": cannot be written; check the folder's permissions and free space");
}

void Metrics::line(const nlohmann::json& entry) {
  or_throw(may_publish(file_));
  out_ << entry.dump() << '\n';
  out_.flush();
  if (!out_) throw Error(KINORA_ERROR_NO_MEMORY, "metrics.jsonl: cannot be written; is the disk full?");
}

// A job that continues from the checkpoint of `step` computes the later steps again: their lines would be
// there twice. The last line may be half of one after a kill, and goes too.
void Metrics::rewind(int64_t step) {
  if (!std::filesystem::is_regular_file(file_)) return;
  std::string kept;
  std::ifstream in(file_);
  for (std::string text; std::getline(in, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (line.is_object() && line.value("step", int64_t{0}) <= step) kept += text + "\n";
  }
  out_.close();
  or_throw(write_file_atomically(file_, kept));
  out_.open(file_, std::ios::app);
}

void Metrics::clear() {
  if (!std::filesystem::is_regular_file(file_)) return;
  or_throw(may_publish(file_));
  out_.close();
  out_.open(file_, std::ios::trunc);
  out_.close();
  out_.open(file_, std::ios::app);
}

JobContext::JobContext(Runtime& runtime, const RunFile& run, const JobSpec& spec, bool writes,
                       JobIdentity identity, std::filesystem::path folder)
    : JobView(runtime, run, spec),
      identity_(std::move(identity)),
      folder_(folder.empty() ? run.out / spec.name : std::move(folder)),
      out_uri_(folder_.string()) {
  std::filesystem::create_directories(folder_);
  // One rank writes the file; the others call line() all the same, so that no job has to ask.
  metrics_ =
      std::make_unique<Metrics>(writes ? folder_ / "metrics.jsonl" : std::filesystem::path("/dev/null"));
}

// Breadth first: the nearest job of this kind.
const JobSpec* JobView::upstream(const std::string& kind) const {
  std::vector<const JobSpec*> at{&spec_};
  for (size_t i = 0; i < at.size(); ++i) {
    if (i > 0 && at[i]->kind->name == kind) return at[i];
    for (size_t input : at[i]->inputs) at.push_back(&run_.jobs[input]);
  }
  return nullptr;
}

const JobSpec& JobView::need_upstream(const std::string& kind) const {
  if (const auto* job = upstream(kind)) return *job;
  throw Error(KINORA_ERROR_INVALID,
              "it needs a job of kind " + kind + " among its inputs, direct or indirect");
}

Component JobView::open(const ComponentUse& use) const {
  return open_component(runtime_.registry(), {}, use.id);
}

kinora_run JobContext::call(Progress* progress, int64_t first_sample) {
  // kinora_run points into `calls_`, a deque, whose elements never move.
  // A job that does not say that it draws cannot: another seed would leave its results as they are.
  calls_.push_back({spec().draws() ? static_cast<uint64_t>(run().seed) : 0, first_sample, progress});
  kinora_run call = run_of(calls_.back());
  call.out = str(out_uri_);
  return call;
}

const JobType& job_type(Registry& registry, const ComponentSpec& kind) {
  const Component job = open_component(registry, {}, kind.id);
  return *job.table<kinora_job>().type();
}

const JobType& job_type(const RunFile& run, const JobSpec& job) {
  if (!run.registry) throw Error(KINORA_ERROR_INVALID, "job '" + job.name + "' was not read from a run file");
  return job_type(*run.registry, *job.kind);
}

}  // namespace kinora::core
