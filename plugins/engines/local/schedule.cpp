// Chooses the next task: called after every change, under the lock.
#include <algorithm>

#include "execution.hpp"

namespace kinora::local {
namespace {

// Samples that wait for their turn before an ordered stage do not mean that it is slow.
constexpr uint64_t kOrderedQueue = 16;

// More instances than a stage's share of the work needs are made only if a core would be idle, and if the work
// queued per instance takes as long as this many starts: in a burst, starting a process or loading a model does not pay;
// a thread always does. While the time of a sample is unknown, a start may cost kCheapStart seconds.
constexpr double kStartsThatPay = 20;
constexpr double kCheapStart = 0.05;

}  // namespace

void Execution::dispatch() {
  if (stopping() || refused_) return;
  while (start_one() || force_one()) {
  }
  if (all_finished()) owner_wakes_.notify_one();
}

bool Execution::start_one() {
  for (const bool further : {false, true}) {
    for (size_t i = stages_.size(); i-- > 0;) {
      const Answer answer = advance(*stages_[i], further);
      if (answer == Answer::yes) return true;
      if (answer == Answer::wait) return false;
    }
    if (!further && can_pull()) return start_pull(), true;
  }
  return false;
}

Execution::Answer Execution::advance(StageState& stage, bool further) {
  if (stage.finished || stage.finishing) return Answer::no;
  if (stage.queue.empty() && stage.busy == 0 && upstream_finished(stage)) {
    const Answer answer = tokens_left(stage.need);
    if (answer == Answer::yes) start_finish(stage);
    return answer;
  }
  if (Waiting* waiting = oldest_waiting(&stage); waiting && fits(*waiting) && devices_left(stage, &waiting->task->slot)) {
    const Answer answer = tokens_left(stage.need);
    if (answer == Answer::yes) grant(*waiting);
    return answer;
  }
  if (!stage.runnable() || !queues_left(stage.to)) return Answer::no;
  const Slot* slot = free_slot(stage);
  if (!slot || !(slot->instance || may_make(stage, further))) return Answer::no;
  // Upstream would only add to a memory that is already full.
  if (!bytes_left(stage.largest)) return Answer::wait;
  const Answer answer = tokens_left(stage.need);
  if (answer == Answer::yes) start_process(stage);
  return answer;
}

bool Execution::may_make(const StageState& stage, bool further) const {
  const size_t have = stage.have();
  if (have == 0) return true;
  if (!further) return have < stage.wanted;
  const auto waiting = stage.waiting();
  return waiting ? *waiting > kStartsThatPay * stage.starting : stage.starting < kCheapStart;
}

// Nothing runs and nothing fits: the oldest sample continues. It alone can be the one that an ordered stage, and with
// it all samples queued there, is waiting for.
bool Execution::force_one() {
  if (active_ > 0 || telling_ || !ends_.empty() || stopping()) return false;
  if (let_go_of_held() || finish_what_is_large()) return true;
  StageState* oldest = nullptr;
  for (auto& stage : stages_)
    if (stage->runnable() && (!oldest || stage->queue.begin()->first < oldest->queue.begin()->first))
      oldest = stage.get();
  Waiting* waiting = oldest_waiting(nullptr);
  if (waiting && (!oldest || waiting->next < oldest->queue.begin()->first)) {
    grant(*waiting);
  } else if (oldest) {
    start_process(*oldest);
  } else if (!source_ended_) {
    start_pull();
  } else {
    if (!all_finished())
      abort(KINORA_FAILED, "engine/local: the pipeline cannot continue; please report this as a bug");
    return false;
  }
  return true;
}

// More than the bound is in use already: samples that are nearly done go first, so that no other adds to it. Emissions that would
// add more than facts, and everything upstream of them, wait, unless nothing else can continue.
bool Execution::finish_what_is_large() {
  if (pipeline_.memory == 0 || ledger_.used() <= pipeline_.memory) return false;
  const uint64_t most = ledger_.used() + pipeline_.memory / 16;
  Waiting* leaving = nullptr;
  size_t from = 0;  // first stage that may run
  for (Waiting* waiting : waiting_) {
    const size_t at = waiting->task->stage.index;
    if (ledger_.after(*waiting->in, waiting->replaced) > most) {
      from = std::max(from, at + 1);
    } else if (!leaving || at > leaving->task->stage.index || (at == leaving->task->stage.index && waiting->next < leaving->next)) {
      leaving = waiting;
    }
  }
  const auto furthest = std::find_if(stages_.rbegin(), stages_.rend(), [](const auto& s) { return s->runnable(); });
  const bool can_run = furthest != stages_.rend() && (*furthest)->index >= from;
  if (leaving && (!can_run || leaving->task->stage.index >= (*furthest)->index)) return grant(*leaving), true;
  if (can_run) start_process(**furthest);
  return can_run;
}

// If held inputs take half of the memory and nothing else fits, a stage holds more than batches, and waits
// for samples that would never arrive, or arrive one at a time. The held inputs of the stage that holds most no longer count.
bool Execution::let_go_of_held() {
  if (pipeline_.memory == 0) return false;
  StageState* most = nullptr;
  uint64_t all = 0, largest = 0;
  for (auto& stage : stages_) {
    const uint64_t bytes = stage->counts_held ? bytes_held(*stage) : 0;
    all += bytes;
    if (bytes > largest) largest = bytes, most = stage.get();
  }
  if (!most || all < pipeline_.memory / 2) return false;
  most->counts_held = false;
  most->let_go = !most->isolated;
  for (auto& slot : most->slots)
    for (auto& [key, held] : slot->held) {
      ledger_.remove(held.weight);
      if (most->let_go) beside_.add(held.weight), held.beside = std::move(held.weight);
      held.weight = {};
      if (std::exchange(held.whole, false)) held.sample = slim(held.sample);
    }
  log(Log::warn, "stage '" + std::string(most->spec->name) + "' holds " + std::to_string(largest >> 20) +
                     " MiB of samples, more than memory = " + std::to_string(pipeline_.memory >> 20) +
                     " MiB leaves room for; they no longer count");
  return true;
}

// The ledger's decrease without them: bytes that they share with other samples stay.
uint64_t Execution::bytes_held(const StageState& stage) {
  const uint64_t before = ledger_.used();
  for (const auto& slot : stage.slots)
    for (const auto& [key, held] : slot->held) ledger_.remove(held.weight);
  const uint64_t without = ledger_.used();
  for (const auto& slot : stage.slots)
    for (const auto& [key, held] : slot->held) ledger_.add(held.weight);
  return before - without;
}

bool Execution::can_pull() const {
  return !pulling_ && !source_ended_ && ends_.size() < settings_.queue && queues_left(first_) &&
         bytes_left(largest_input_);
}

void Execution::start_pull() {
  pulling_ = true;
  Job job{Job::pull};
  job.reserve = largest_input_;
  start(std::move(job));
}

void Execution::start_process(StageState& stage) {
  Job job{Job::process, &stage};
  job.in = std::move(stage.queue.begin()->second);
  stage.queue.erase(stage.queue.begin());
  ++job.in->track->open;
  job.slot = free_slot(stage);
  if (!job.slot) job.slot = stage.free.back();  // nothing else runs
  std::erase(stage.free, job.slot);
  job.reserve = stage.largest;
  start(std::move(job));
}

void Execution::start_finish(StageState& stage) {
  stage.finishing = true;
  start({Job::finish, &stage});
}

void Execution::start(Job job) {
  ++active_;
  reserved_ += job.reserve;
  if (job.stage) {
    take(*job.stage, job.slot);
    ++job.stage->busy;
  }
  ready_.push_back(std::move(job));
  if (idle_ < ready_.size()) spawn();
  ready_changed_.notify_one();
}

void Execution::grant(Waiting& waiting) {
  waiting.granted = true;
  std::erase(waiting_, &waiting);
  ++active_;
  take(waiting.task->stage, &waiting.task->slot);
  account(waiting);
  waiting.go.notify_one();
}

bool Execution::fits(const Waiting& waiting) {
  if (!queues_left(waiting.task->stage.to)) return false;
  return pipeline_.memory == 0 || ledger_.after(*waiting.in, waiting.out) + reserved_ <= pipeline_.memory;
}

bool Execution::bytes_left(uint64_t more) const {
  return pipeline_.memory == 0 || ledger_.used() + reserved_ + more <= pipeline_.memory;
}

bool Execution::queues_left(const std::vector<StageState*>& to) const {
  if (to.empty()) return ends_.size() < settings_.queue;
  return std::all_of(to.begin(), to.end(), [&](const StageState* next) {
    return next->queue.size() < settings_.queue * (next->in_order ? kOrderedQueue : 1);
  });
}

Execution::Waiting* Execution::oldest_waiting(const StageState* stage) {
  Waiting* oldest = nullptr;
  for (Waiting* waiting : waiting_) {
    if (stage && &waiting->task->stage != stage) continue;
    if (!oldest || waiting->next < oldest->next) oldest = waiting;
  }
  return oldest;
}

Execution::Answer Execution::tokens_left(const Tokens& need) const {
  constexpr double kRounding = 1e-6;  // sums of fractions such as a tenth of a core
  const Tokens& total = settings_.total;
  if (used_.gpus + need.gpus > total.gpus + kRounding || used_.memory + need.memory > total.memory ||
      used_.nvdec + need.nvdec > total.nvdec + kRounding || used_.nvenc + need.nvenc > total.nvenc + kRounding)
    return Answer::no;
  return used_.cores + need.cores > total.cores + kRounding ? Answer::wait : Answer::yes;
}

// Slots with an instance come before empty ones, as in the list.
Slot* Execution::free_slot(const StageState& stage) const {
  for (size_t i = stage.free.size(); i-- > 0;)
    if (devices_left(stage, stage.free[i])) return stage.free[i];
  return nullptr;
}

bool Execution::devices_left(const StageState& stage, const Slot* slot) const {
  return std::all_of(slot->devices.begin(), slot->devices.end(), [&](size_t device) {
    const double whole = std::min(1.0, settings_.total.gpus - static_cast<double>(device));
    return devices_[device] + stage.share <= whole + 1e-6;
  });
}

void Execution::take(const StageState& stage, const Slot* slot) {
  used_.cores += stage.need.cores;
  used_.gpus += stage.need.gpus;
  used_.memory += stage.need.memory;
  used_.nvdec += stage.need.nvdec;
  used_.nvenc += stage.need.nvenc;
  if (slot)
    for (const size_t device : slot->devices) devices_[device] += stage.share;
}

void Execution::give(const StageState& stage, const Slot* slot) {
  used_.cores -= stage.need.cores;
  used_.gpus -= stage.need.gpus;
  used_.memory -= stage.need.memory;
  used_.nvdec -= stage.need.nvdec;
  used_.nvenc -= stage.need.nvenc;
  if (slot)
    for (const size_t device : slot->devices) devices_[device] -= stage.share;
}

bool Execution::upstream_finished(const StageState& stage) const {
  if (stage.spec->n_from == 0) return source_ended_;
  return std::all_of(stage.spec->from, stage.spec->from + stage.spec->n_from,
                     [&](uint32_t from) { return stages_[from]->finished; });
}

bool Execution::all_finished() const {
  return source_ended_ && !pulling_ && ends_.empty() && !telling_ &&
         std::all_of(stages_.begin(), stages_.end(), [](const auto& stage) { return stage->finished; });
}

}  // namespace kinora::local
