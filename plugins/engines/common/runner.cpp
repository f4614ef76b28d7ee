#include "plugins/engines/common/runner.hpp"

#include <algorithm>

#include "plugins/engines/common/remote.hpp"
#include "plugins/engines/common/task.hpp"

namespace kinora::engines {
namespace {

// Seconds: the longest delay until a cancellation is noticed, between two looks at the figures, between two
// reports, and for other workers to end their tasks after a stage returned KINORA_ERROR_REFUSED.
constexpr double kPoll = 0.02, kLook = 0.1, kReport = 1.0, kRefused = 2.0;

// Where a sample has been stored, if it has.
struct Stored {
  std::string folder, files;

  // The sample has no word of it any more.
  explicit Stored(Sample sample) {
    const auto text = sample.text(kStored);
    if (!text) return;
    const auto told = nlohmann::json::parse(*text);
    folder = told.at("folder").get<std::string>();
    files = told.at("files").dump();
    sample.remove(kStored);
  }
};

}  // namespace

Runner::Runner(const kinora_pipeline& pipeline, const Run& run, const Settings& settings, Executor& executor)
    : pipeline_(pipeline),
      run_(*run.get()),
      settings_(settings),
      executor_(executor),
      stages_(set_up_stages(pipeline, settings.nodes, executor)),
      ledger_(pipeline.memory),
      lineage_(ledger_, [this] { executor_.wake(); }),
      scheduler_(stages_, settings.nodes, settings.queue, ledger_, lineage_),
      advice_(stages_, scheduler_.machine().left()),
      figures_(scheduler_, ledger_) {
  if (settings_.profile && run_.out.size > 0)
    trace_.emplace(std::string(view(run_.out)) + "/trace.json", settings_.now);
}

Runner::~Runner() { tear_down(stages_); }

void Runner::stop() {
  const Lock lock(mutex_);
  halt();
}

int32_t Runner::cancelled() const {
  if (stopping()) return KINORA_ERROR_CANCELLED;
  return run_.cancelled ? run_.cancelled(run_.self) : KINORA_OK;
}

void Runner::run() {
  begin_ = now();
  Lock lock(mutex_);
  dispatch();
  while (!stopping() && !scheduler_.all_finished()) {
    look_around(lock);
    if (lineage_.unreported() > 0 || scheduler_.all_finished() || stopping()) continue;
    const double wait = until_next();
    lock.unlock();
    executor_.wait(wait);
    lock.lock();
  }
  // Calls inside a plugin return when it checks cancelled() or finishes; wait for all of them.
  while (!scheduler_.is_at_rest()) {
    lock.unlock();
    executor_.wait(kPoll);
    lock.lock();
  }
  lock.unlock();
  if (trace_) trace_->close();
  if (error_ != KINORA_OK) throw Error(error_, error_message_);
  if (pipeline_.report) pipeline_.report(pipeline_.self, figures(seconds_between(begin_, now())).c_str());
}

// The owner's thread reports outcomes and figures, and sees whether the run has to end.
void Runner::look_around(Lock& lock) {
  report_outcomes(lock);
  if (stopping()) return;
  if (refused_is_told()) return abort(KINORA_ERROR_INVALID, refusal_);
  resume_due();
  const double seconds = seconds_between(begin_, now());
  if (seconds - looked_ >= kLook && advice_.look(looked_ = seconds)) dispatch();
  lock.unlock();
  const bool cancel = cancelled() != KINORA_OK;
  if (!cancel && pipeline_.report && seconds - reported_ >= kReport)
    pipeline_.report(pipeline_.self, figures(reported_ = seconds).c_str());
  lock.lock();
  if (cancel) abort(KINORA_ERROR_CANCELLED, "cancelled");
}

// Seconds until an attempt may be repeated, at most until the next look.
double Runner::until_next() const {
  if (paused_.empty()) return kPoll;
  return std::clamp(seconds_between(now(), paused_.begin()->first), 0.0, kPoll);
}

std::string Runner::figures(double seconds) {
  const Lock lock(mutex_);
  return figures_.at(seconds, advice_, trace_ ? &*trace_ : nullptr);
}

void Runner::report_outcomes(Lock& lock) {
  while (!stopping()) {
    const std::shared_ptr<Track> track = lineage_.next();
    if (!track) return;
    lock.unlock();
    std::string message;
    const int32_t status = report(*track, message);
    track->sample.reset();
    lock.lock();
    lineage_.told(*track);
    if (status != KINORA_OK) abort(status, message);
    dispatch();
  }
}

int32_t Runner::report(const Track& track, std::string& message) {
  const End& end = *track.end;
  kinora_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  outcome.end = end.end;
  outcome.sample = track.sample->get();
  outcome.stage = end.stage;
  outcome.reason = end.reason ? end.reason->c_str() : nullptr;
  outcome.score = end.score;
  outcome.status = end.status;
  outcome.consumed = end.consumed ? 1 : 0;
  outcome.made = track.made;
  std::vector<kinora_str> inputs, parents;
  for (const auto key : inputs_of(track)) inputs.push_back(str(key));
  for (const auto& parent : track.parents) parents.push_back(str(parent->key));
  outcome.inputs = inputs.data(), outcome.n_inputs = static_cast<uint32_t>(inputs.size());
  outcome.parents = parents.data(), outcome.n_parents = static_cast<uint32_t>(parents.size());
  const Stored stored(*track.sample);
  const bool is_stored = end.end == KINORA_OUTCOME_KEPT && !end.stage && !stored.folder.empty();
  outcome.folder = is_stored ? stored.folder.c_str() : nullptr;
  outcome.files = is_stored ? stored.files.c_str() : nullptr;
  const int32_t status = pipeline_.done(pipeline_.self, &outcome);
  if (status == KINORA_OK) return status;
  message = view(host()->last_error(host()));
  if (message.empty()) message = "the pipeline's owner could not record an outcome";
  return status;
}

void Runner::abort(int32_t code, const std::string& message) {
  if (stopping()) return;
  error_ = code;
  error_message_ = message;
  halt();
}

void Runner::halt() {
  stopping_ = true;
  scheduler_.close(true);
  resume_due(true);
  executor_.wake();
}

void Runner::refuse(const StageState& stage, const std::string& message) {
  if (refused_) return;
  refused_ = &stage;
  refusal_ = message;
  refused_since_ = now();
  scheduler_.close(false);
}

// Results of the stage's other workers are not lost. A worker that waits for room may wait forever, so the
// wait is limited.
bool Runner::refused_is_told() const {
  return refused_ && lineage_.unreported() == 0 &&
         (refused_->busy == 0 || seconds_between(refused_since_, now()) > kRefused);
}

void Runner::dispatch(bool here) {
  if (stopping()) return;
  resume_due();
  scheduler_.dispatch();
  while (!stopping() && !scheduler_.ready().empty()) {
    Job job = std::move(scheduler_.ready().front());
    scheduler_.ready().pop_front();
    begin(std::move(job), std::exchange(here, false));
  }
  if (scheduler_.is_stuck())
    abort(KINORA_ERROR_FAILED, "the engine: the pipeline cannot continue; please report this as a bug");
  if (scheduler_.all_finished()) executor_.wake();
}

void Runner::begin(Job job, bool here) {
  const Job ids{job.what, job.stage, job.slot};
  Task* task = nullptr;
  try {
    if (ids.what == Job::pull) {
      executor_.post([this, reserve = job.reserve] { pull(reserve); }, here);
    } else if (ids.what == Job::finish) {
      executor_.post([this, stage = ids.stage] { finish_next(*stage); }, here);
    } else {
      task = &add(std::move(job), *ids.slot);
      executor_.post([this, task] { step(*task, [&] { process(*task); }); }, here);
    }
  } catch (const Error& e) {
    tasks_.erase(task);
    scheduler_.ended(ids);
    abort(e.code(), e.what());
  }
}

// Attempts whose time has come are repeated; all: the run ends, and so do they.
void Runner::resume_due(bool all) {
  while (!paused_.empty() && (all || paused_.begin()->first <= now())) {
    Task& task = *paused_.extract(paused_.begin()).mapped();
    executor_.post([this, &task] { step(task, [&] { again(task); }); }, false);
  }
}

Task& Runner::add(Job job, Slot& slot) {
  auto task = std::make_unique<Task>(*this, std::move(job), slot);
  Task& out = *task;
  tasks_.emplace(&out, std::move(task));
  return out;
}

void Runner::end(Task& task) {
  task.let_go();
  const Job ids{task.job.what, task.job.stage, task.job.what == Job::finish ? nullptr : task.job.slot};
  const Lock lock(mutex_);
  tasks_.erase(&task);
  end(ids);
}

void Runner::end(const Job& job) {
  scheduler_.ended(job);
  dispatch(true);
  if (scheduler_.active() == 0) executor_.wake();
}

void Runner::lose_node(size_t node) {
  const Lock lock(mutex_);
  scheduler_.lose_node(node);
  advice_.set_nodes(scheduler_.machine().left());
  dispatch();
}

void Runner::correct_node(size_t node, double cores) {
  const Lock lock(mutex_);
  scheduler_.correct_node(node, cores);
  advice_.set_nodes(scheduler_.machine().left());
}

void Runner::add_node(const Tokens& has) {
  const Lock lock(mutex_);
  scheduler_.add_node(has);
  advice_.set_nodes(scheduler_.machine().left());
  dispatch();
}

void Runner::done(Task& task, int32_t status, std::string message) {
  step(task, [&] {
    status = said(status, message);
    if (task.job.what == Job::finish) return finish_done(task, status, message);
    if (!task.batch.empty()) return batch_done(task, status, message);
    attempted(task, status, std::move(message));
  });
}

}  // namespace kinora::engines
