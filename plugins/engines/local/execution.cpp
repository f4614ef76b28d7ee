#include "execution.hpp"

#include <cmath>

namespace kinora::local {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);  // longest delay until a cancellation is noticed
constexpr double kLook = 0.1;                           // seconds between two looks at the figures
constexpr double kRefused = 2.0;  // seconds that other workers get to end their tasks after a stage returned KINORA_STOP

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Execution::Execution(const kinora_pipeline& pipeline, const Run& run, const Settings& settings)
    : pipeline_(pipeline), run_(*run.get()), settings_(settings) {
  settings_.isolation.check(pipeline);
  stages_ = set_up_stages(pipeline, {settings_.total, settings_.isolation});
  for (auto& stage : stages_)
    if (stage->spec->n_from == 0) first_.push_back(stage.get());
  last_figures_.resize(stages_.size());
  advice_.emplace(stages_, settings_.total);
  devices_.resize(static_cast<size_t>(std::ceil(settings_.total.gpus - 1e-9)));
  if (settings_.profile && run_.out.size > 0) trace_.emplace(std::string(view(run_.out)) + "/trace.json");
}

Execution::~Execution() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    quit_ = true;
    ready_.clear();
    for (Waiting* waiting : waiting_) waiting->go.notify_one();  // run() was left by an exception
  }
  ready_changed_.notify_all();
  stop_changed_.notify_all();
  for (auto& thread : threads_) thread.join();
  tear_down(stages_);
}

int32_t Execution::cancelled() const {
  if (stopping()) return KINORA_CANCELLED;
  return run_.cancelled ? run_.cancelled(run_.self) : KINORA_OK;
}

void Execution::run() {
  const auto begin = std::chrono::steady_clock::now();
  double reported = 0, looked = 0;
  Lock lock(mutex_);
  dispatch();
  while (!stopping() && !all_finished()) {
    tell_ends(lock);
    if (refused_is_told()) {
      abort(KINORA_INVALID, refusal_);
      break;
    }
    const double now = seconds_since(begin);
    if (now - looked >= kLook) advice_->look(looked = now);
    lock.unlock();
    if (cancelled() != KINORA_OK) {
      lock.lock();
      abort(KINORA_CANCELLED, "cancelled");
      break;
    }
    if (pipeline_.report && now - reported >= 1.0) {
      reported = now;
      pipeline_.report(pipeline_.self, figures(now).c_str());
    }
    lock.lock();
    if (ends_.empty() && !all_finished() && !stopping()) owner_wakes_.wait_for(lock, kPoll);
  }
  // Workers inside a plugin return when it checks cancelled() or finishes; wait for all of them.
  owner_wakes_.wait(lock, [&] { return active_ == 0 && waiting_.empty(); });
  lock.unlock();
  if (trace_) trace_->close();
  if (error_ != KINORA_OK) throw Error(error_, error_message_);
  if (pipeline_.report) pipeline_.report(pipeline_.self, figures(seconds_since(begin)).c_str());
}

void Execution::tell_ends(Lock& lock) {
  while (!ends_.empty() && !stopping()) {
    const std::shared_ptr<Track> track = std::move(ends_.front());
    ends_.pop_front();
    telling_ = true;
    tell(lock, *track);
    telling_ = false;
    for (const auto& parent : track->parents)
      if (--parent->open == 0) settle(parent);
    dispatch();
  }
}

void Execution::tell(Lock& lock, Track& track) {
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
  lock.unlock();
  const int32_t status = pipeline_.done(pipeline_.self, &outcome);
  const std::string message(status == KINORA_OK ? "" : view(host()->last_error(host())));
  track.sample.reset();
  lock.lock();
  ledger_.remove(track.weight);
  if (status != KINORA_OK)
    abort(status, message.empty() ? "the pipeline's owner could not record an outcome" : message);
}

void Execution::end(const std::shared_ptr<Track>& track, End end, Sample sample, Weight weight) {
  if (end.consumed && track->open > 0) {
    ledger_.remove(weight);
    sample = slim(sample);
    weight = weigh(sample);
    ledger_.add(weight);
  }
  track->end = std::move(end);
  track->sample = std::move(sample);
  track->weight = std::move(weight);
  settle(track);
}

void Execution::settle(std::shared_ptr<Track> track) {
  if (!track->end || track->open > 0 || track->settled) return;
  track->settled = true;
  ends_.push_back(std::move(track));
  owner_wakes_.notify_one();
}

void Execution::abort(int32_t code, const std::string& message) {
  if (stopping()) return;
  error_ = code;
  error_message_ = message;
  stopping_ = true;
  active_ -= ready_.size();  // never started
  ready_.clear();
  for (Waiting* waiting : waiting_) waiting->go.notify_one();
  stop_changed_.notify_all();
  owner_wakes_.notify_one();
}

void Execution::refuse(const StageState& stage, const std::string& message) {
  if (refused_) return;
  refused_ = &stage;
  refusal_ = message;
  refused_since_ = std::chrono::steady_clock::now();
}

// Results of the stage's other workers are not lost. A worker that waits for room may wait forever, so the wait is limited.
bool Execution::refused_is_told() const {
  return refused_ && ends_.empty() && (refused_->busy == 0 || seconds_since(refused_since_) > kRefused);
}

void Execution::spawn() {
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // The system provides no more threads. The existing ones take the job when they can.
    if (threads_.empty())
      abort(KINORA_NO_MEMORY, "no thread could be started; raise the limit on processes (ulimit -u)");
  }
}

void Execution::work() {
  Lock lock(mutex_);
  for (;;) {
    ++idle_;
    ready_changed_.wait(lock, [&] { return quit_ || !ready_.empty(); });
    --idle_;
    if (ready_.empty()) return;
    Job job = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    perform(job);
    job.in.reset();
    lock.lock();
    --active_;
    if (job.stage) {
      give(*job.stage, job.slot);
      --job.stage->busy;
      if (job.slot) job.stage->give_back(job.slot);
    }
    dispatch();
    if (active_ == 0) owner_wakes_.notify_one();
  }
}

void Execution::perform(Job& job) {
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
