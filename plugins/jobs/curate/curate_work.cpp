#include "plugins/jobs/curate/curate_work.hpp"

#include <algorithm>
#include <mutex>
#include <optional>

#include "core/base/facts.hpp"
#include "core/base/terminal.hpp"
#include "host/stages/one_stage.hpp"
#include "host/stages/stage_check.hpp"
#include "plugins/jobs/curate/ingest.hpp"
#include "plugins/jobs/pipeline/video_pace.hpp"

namespace kinora::core {
namespace {

constexpr uint32_t kKeepsState = 1;  // kinora_resources.ordered

Counts counts_of(const std::map<std::string, int64_t>& ends) {
  const auto of = [&](const char* end) { return ends.contains(end) ? ends.at(end) : 0; };
  return {of("kept"), of("filtered"), of("failed")};
}

// The pace of the inputs' videos, told by the source and the outcomes of the pipeline.
class Pace {
 public:
  Pace(Registry& registry, const InputRows& inputs, const Record& record)
      : registry_(registry), inputs_(inputs), pace_(pace_of(inputs, record)) {}

  // The source has looked at the inputs before `to`, and `emitted` is the last of them or null.
  void pulled(size_t to, const Sample* emitted) {
    const std::lock_guard lock(mutex_);
    for (; at_ + (emitted ? 1 : 0) < to; ++at_)
      if (!ended_[at_]) pace_.skip(inputs_[at_].size);
    if (!emitted) return;
    const Input input = inputs_[at_++];
    pace_.begin(input.key, input.url, input.size);
  }

  void end(const Sample& sample, const kinora_outcome& outcome) {
    const json facts = parse_facts(sample.text("json").value_or(""));
    const std::lock_guard lock(mutex_);
    if (outcome.made == 0 && outcome.end != KINORA_OUTCOME_KEPT)
      pace_.drop(std::string(sample.key()));
    else if (outcome.made == 0)
      pace_.end(std::string(sample.key()), number_in(facts, "duration_s"));
    else
      pace_.reach(text_in(facts, "film"), number_in(facts, "end_s"));
  }

  std::string text() {
    const std::lock_guard lock(mutex_);
    return pace_.text();
  }

  double left() {
    const std::lock_guard lock(mutex_);
    return pace_.left();
  }

  std::vector<std::string> at_work() {
    const std::lock_guard lock(mutex_);
    if (draws()) pace_.look();
    return pace_.at_work();
  }

 private:
  VideoPace pace_of(const InputRows& inputs, const Record& record) {
    uint64_t bytes = inputs.bytes();
    ended_.resize(inputs.size());
    if (record.ended_before() > 0)
      inputs.each([&](size_t at, const Input& input) {
        ended_[at] = record.has_ended(input);
        if (ended_[at]) bytes -= input.size;
      });
    return {bytes, std::ranges::count(ended_, false),
            [this](const std::string& url) { return length_of(url); }};
  }

  // Only of a file on this machine, which is read at once.
  double length_of(const std::string& url) {
    if (is_remote(url)) return 0;
    try {
      if (!probe_) probe_.emplace(registry_, "video.probe", json::object());
      Sample video("video");
      video.set("url", url);
      return number_in(parse_facts((*probe_)(video).text("json").value_or("")), "duration_s");
    } catch (const Error&) {
      return 0;  // what is wrong with it is the stage's to say
    }
  }

  Registry& registry_;
  const InputRows& inputs_;
  std::mutex mutex_;
  std::optional<OneStage> probe_;
  std::vector<bool> ended_;  // in an earlier run
  VideoPace pace_;
  size_t at_ = 0;
};

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
  Pace pace(context.runtime().registry(), inputs, record);
  PipelineJob job;
  job.stages = context.spec().list("stages");
  job.engine = context.spec().component("engine");
  job.memory = options.memory;
  job.store = store_folder(context).string();
  job.threads = options.threads;
  job.total = record.inputs();
  if (record.ended_before() + record.clips_before() > 0)
    job.before = counts_of(record.ends(false)), job.made_before = counts_of(record.ends(true));
  job.unit = "inputs";
  job.next = [&] {
    const bool may = !may_begin || ingest.at() >= inputs.size() || may_begin(ingest.at());
    auto sample = may ? ingest.next() : std::nullopt;
    pace.pulled(ingest.at(), sample ? &*sample : nullptr);
    return sample;
  };
  const int64_t before = record.ended_before();
  job.ended_before_stages = [&, before] { return before + ingest.ended(); };
  job.ended_at_source = [&] { return ingest.counts(); };
  job.usage = [&] { return writer.usage(); };
  job.pace = [&] { return pace.text(); };
  job.left = [&] { return pace.left(); };
  job.at_work = [&] { return pace.at_work(); };
  job.called = [&](const Sample& sample) { return writer.called(sample); };
  job.ended_before = [&](const Sample& sample, const kinora_outcome& outcome) {
    return record.knows(std::string(sample.key()), outcome.made != 0);
  };
  job.ended = [&](const Sample& sample, const kinora_outcome& outcome) {
    writer.end(sample, outcome);
    pace.end(sample, outcome);
    if (ended) ended();
  };
  return run_pipeline(context, job);
}

}  // namespace kinora::core
