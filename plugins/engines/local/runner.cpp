#include "plugins/engines/local/runner.hpp"

#include <cmath>

namespace kinora::local {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);  // longest delay until a cancellation is noticed
constexpr double kLook = 0.1;                          // seconds between two looks at the figures
constexpr double kRefused =
    2.0;  // seconds that other workers get to end their tasks after a stage returned KINORA_ERROR_REFUSED

}  // namespace

Runner::Runner(const kinora_pipeline& pipeline, const Run& run, const Settings& settings)
    : pipeline_(pipeline),
      run_(*run.get()),
      settings_(settings),
      stages_((settings.isolation.check(pipeline),
               set_up_stages(pipeline, {settings.total, settings_.isolation}))),
      ledger_(pipeline.memory),
      lineage_(ledger_, owner_wakes_),
      scheduler_(stages_, settings.total, settings.queue, ledger_, lineage_),
      advice_(stages_, settings.total),
      figures_(scheduler_, ledger_, settings.total.cores) {
  if (settings_.profile && run_.out.size > 0) trace_.emplace(std::string(view(run_.out)) + "/trace.json");
}

Runner::~Runner() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    quit_ = true;
    scheduler_.close(true);  // run() was left by an exception
  }
  ready_changed_.notify_all();
  stop_changed_.notify_all();
  for (auto& thread : threads_) thread.join();
  tear_down(stages_);
}

int32_t Runner::cancelled() const {
  if (stopping()) return KINORA_ERROR_CANCELLED;
  return run_.cancelled ? run_.cancelled(run_.self) : KINORA_OK;
}

void Runner::run() {
  const auto begin = std::chrono::steady_clock::now();
  double reported = 0, looked = 0;
  Lock lock(mutex_);
  dispatch();
  while (!stopping() && !scheduler_.all_finished()) {
    report_outcomes(lock);
    if (refused_is_told()) {
      abort(KINORA_ERROR_INVALID, refusal_);
      break;
    }
    const double now = seconds_since(begin);
    if (now - looked >= kLook) advice_.look(looked = now);
    lock.unlock();
    if (cancelled() != KINORA_OK) {
      lock.lock();
      abort(KINORA_ERROR_CANCELLED, "cancelled");
      break;
    }
    if (pipeline_.report && now - reported >= 1.0) {
      reported = now;
      pipeline_.report(pipeline_.self, figures(now).c_str());
    }
    lock.lock();
    if (lineage_.unreported() == 0 && !scheduler_.all_finished() && !stopping())
      owner_wakes_.wait_for(lock, kPoll);
  }
  // Workers inside a plugin return when it checks cancelled() or finishes; wait for all of them.
  owner_wakes_.wait(lock, [&] { return scheduler_.is_at_rest(); });
  lock.unlock();
  if (trace_) trace_->close();
  if (error_ != KINORA_OK) throw Error(error_, error_message_);
  if (pipeline_.report) pipeline_.report(pipeline_.self, figures(seconds_since(begin)).c_str());
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
  stopping_ = true;
  scheduler_.close(true);
  stop_changed_.notify_all();
  owner_wakes_.notify_one();
}

void Runner::refuse(const StageState& stage, const std::string& message) {
  if (refused_) return;
  refused_ = &stage;
  refusal_ = message;
  refused_since_ = std::chrono::steady_clock::now();
  scheduler_.close(false);
}

// Results of the stage's other workers are not lost. A worker that waits for room may wait forever, so the
// wait is limited.
bool Runner::refused_is_told() const {
  return refused_ && lineage_.unreported() == 0 &&
         (refused_->busy == 0 || seconds_since(refused_since_) > kRefused);
}

void Runner::dispatch(size_t here) {
  if (stopping()) return;
  for (size_t n = scheduler_.dispatch(); n > here; --n) {
    if (idle_ + here < scheduler_.ready().size() && !spawn()) return;
    ready_changed_.notify_one();
  }
  if (scheduler_.is_stuck())
    abort(KINORA_ERROR_FAILED, "engine/local: the pipeline cannot continue; please report this as a bug");
  if (scheduler_.all_finished()) owner_wakes_.notify_one();
}

bool Runner::spawn() {
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // The system provides no more threads. The existing ones take the job when they can.
    if (threads_.empty()) {
      abort(KINORA_ERROR_NO_MEMORY, "no thread could be started; raise the limit on processes (ulimit -u)");
      return false;
    }
  }
  return true;
}

void Runner::work() {
  Lock lock(mutex_);
  auto& ready = scheduler_.ready();
  for (;;) {
    ++idle_;
    ready_changed_.wait(lock, [&] { return quit_ || !ready.empty(); });
    --idle_;
    if (ready.empty()) return;
    Job job = std::move(ready.front());
    ready.pop_front();
    lock.unlock();
    perform(job);
    job.in.clear();
    lock.lock();
    scheduler_.ended(job);
    dispatch(1);
    if (scheduler_.active() == 0) owner_wakes_.notify_one();
  }
}

void Runner::perform(Job& job) {
  const int32_t status = guard([&] {
    if (job.what == Job::pull) perform_pull(job.reserve);
    if (job.what == Job::process) perform_process(job);
    if (job.what == Job::finish) perform_finish(*job.stage);
  });
  if (status == KINORA_OK) return;
  const std::string message(view(host()->last_error(host())));
  const Lock lock(mutex_);
  abort(status, message);
}

}  // namespace kinora::local
