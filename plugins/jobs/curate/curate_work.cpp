#include "plugins/jobs/curate/curate_work.hpp"

#include "host/stages/stage_check.hpp"
#include "plugins/jobs/curate/ingest.hpp"

namespace kinora::core {
namespace {

constexpr uint32_t kKeepsState = 1;  // kinora_resources.ordered

}  // namespace

// Where stages look for what they have paid for (plugins/stages/endpoint/kept_answers.hpp), and where it goes when the
// job is done: a job that starts over with other options finds it there.
Answers::Answers(const JobContext& context)
    : folder_(context.folder() / "answers"), old_(context.folder() / ".answers") {
  if (std::filesystem::exists(old_) && !std::filesystem::exists(folder_))
    std::filesystem::rename(old_, folder_);
  std::filesystem::create_directories(folder_);
}

void Answers::set_aside() const {
  std::filesystem::remove_all(old_);
  if (!std::filesystem::is_empty(folder_)) std::filesystem::rename(folder_, old_);
}

Answers::~Answers() {
  std::error_code ignored;  // not empty: answers stay
  std::filesystem::remove(folder_, ignored);
}

std::string keeps_state(const JobView& job) {
  for (const auto* use : job.spec().list("stages"))
    if (resources_of(job, *use).ordered == kKeepsState) return use->called();
  return "";
}

PipelineResult run_stages(JobContext& context, const CurateOptions& options, const InputRows& inputs,
                          Record& record, const std::function<bool(size_t)>& may_begin,
                          const std::function<void()>& ended) {
  Ingest ingest(inputs, record, {options.hash, options.duplicates == "drop"});
  OutcomeWriter writer(context, record, inputs);
  PipelineJob job;
  job.stages = context.spec().list("stages");
  job.engine = context.spec().component("engine");
  job.memory = options.memory;
  job.threads = options.threads;
  job.total = record.inputs();
  job.made_before = record.clips_before();
  job.unit = "inputs";
  job.next = [&] {
    const bool may = !may_begin || ingest.at() >= inputs.size() || may_begin(ingest.at());
    return may ? ingest.next() : std::nullopt;
  };
  const int64_t before = record.ended_before();
  job.ended_before_stages = [&, before] { return before + ingest.ended(); };
  job.usage = [&] { return writer.usage(); };
  job.called = [&](const Sample& sample) { return writer.called(sample); };
  job.ended_before = [&](const Sample& sample, const kinora_outcome& outcome) {
    return record.knows(std::string(sample.key()), outcome.made != 0);
  };
  job.ended = [&](const Sample& sample, const kinora_outcome& outcome) {
    writer.end(sample, outcome);
    if (ended) ended();
  };
  return run_pipeline(context, job);
}

}  // namespace kinora::core
