#include "plugins/engines/common/scheduler.hpp"

#include <algorithm>

#include "plugins/engines/common/stage_state.hpp"

namespace kinora::engines {
namespace {

constexpr uint64_t kOrderedQueue = 16;

// More instances than a stage's share of the work needs are made only if a core would be idle, and if the
// work queued per instance takes as long as this many starts: in a burst, starting a process or loading a
// model does not pay; a thread always does. While the time of a sample is unknown, a start may cost
// kCheapStart seconds.
constexpr double kStartsThatPay = 20;
constexpr double kCheapStart = 0.05;

}  // namespace

Scheduler::Scheduler(Stages& stages, const std::vector<Tokens>& nodes, uint64_t queue, Ledger& ledger,
                     Lineage& lineage)
    : stages_(stages), queue_(queue), ledger_(ledger), lineage_(lineage), machine_(nodes) {
  for (auto& stage : stages_)
    if (stage->spec->n_from == 0) source.to.push_back(stage.get());
}

size_t Scheduler::dispatch() {
  const size_t before = ready_.size();
  while (!closed_ && (start_one() || force_one())) {
  }
  return ready_.size() - before;
}

void Scheduler::ended(const Job& job) {
  --active_;
  if (!job.stage) return;
  give(*job.stage, job.slot);
  --job.stage->busy;
  if (!job.slot) return;
  move(*job.stage, *job.slot, false);
  job.stage->give_back(job.slot);
}

void Scheduler::lose_slot(Job& job) {
  give(*job.stage, job.slot);
  job.slot = nullptr;
  take(*job.stage, nullptr);
}

void Scheduler::add_node(const Tokens& has) {
  const size_t node = machine_.nodes();
  machine_.add(has);
  for (auto& stage : stages_) extend(*stage, node, has);
}

void Scheduler::lose_node(size_t node) {
  machine_.lose(node);
  for (auto& stage : stages_)
    for (Slot* slot : stage->free) move(*stage, *slot, false);
}

bool Scheduler::can_move(const Slot& slot) const {
  return machine_.has_lost(slot.node) && machine_.freest(slot.devices);
}

void Scheduler::move(const StageState& stage, Slot& slot, bool taken) {
  if (!can_move(slot)) return;
  if (taken) give(stage, &slot);
  slot.node = *machine_.freest(slot.devices);
  if (taken) take(stage, &slot);
}

void Scheduler::close(bool wake) {
  closed_ = true;
  if (!wake) return;
  active_ -= ready_.size();  // never started
  ready_.clear();
  while (!waiting_.empty()) {
    Waiting& waiting = *waiting_.front();
    go_on(waiting);
    waiting.go(false);
  }
}

bool Scheduler::start_one() {
  machine_.release();
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

Scheduler::Answer Scheduler::advance(StageState& stage, bool further) {
  if (stage.finished || stage.finishing) return Answer::no;
  if (stage.queue.empty() && stage.busy == 0 && upstream_finished(stage)) {
    const Answer answer = ask(0, stage.need);
    if (answer == Answer::yes) start_finish(stage);
    return answer;
  }
  if (Waiting* waiting = oldest_waiting(&stage);
      waiting && fits(*waiting) && machine_.has(waiting->slot->node, waiting->slot->devices, stage.share)) {
    const Answer answer = ask(waiting->slot->node, stage.need);
    if (answer == Answer::yes) grant(*waiting);
    return answer;
  }
  if (!stage.runnable() || !queues_left(stage.to) || !(has_full_batch(stage) || upstream_finished(stage)))
    return Answer::no;
  const Slot* slot = free_slot(stage);
  if (!slot || !(slot->instance || may_make(stage, further))) return Answer::no;
  // Upstream would only add to a memory that is already full.
  if (!ledger_.has_room(stage.largest)) return Answer::wait;
  const Answer answer = ask(slot->node, stage.need);
  if (answer == Answer::yes) start_process(stage);
  return answer;
}

// A task that waits for cores of one node does not keep the others from work.
Scheduler::Answer Scheduler::ask(size_t node, const Tokens& need) {
  const Answer answer = machine_.has(node, need);
  if (answer != Answer::wait) return answer;
  return machine_.hold(node) ? Answer::wait : Answer::no;
}

bool Scheduler::may_make(const StageState& stage, bool further) const {
  const size_t have = stage.have();
  if (have == 0) return true;
  if (!further) return have < stage.wanted;
  const auto waiting = stage.waiting();
  return waiting ? *waiting > kStartsThatPay * stage.starting : stage.starting < kCheapStart;
}

// How many inputs the stage's next call takes: those that are there and may be taken, up to a batch.
size_t Scheduler::together(const StageState& stage) const {
  size_t n = 0;
  for (const auto& [place, item] : stage.queue) {
    if (n == stage.batch || (n > 0 && item.is_single()) || (stage.in_order && !stage.ahead.passed(place)))
      break;
    ++n;
    if (item.is_single()) break;
  }
  return n;
}

// Whether waiting makes the stage's next call no larger. Otherwise it waits until its upstream has finished,
// or nothing else runs (force_one).
bool Scheduler::has_full_batch(const StageState& stage) const {
  if (stage.batch == 1) return true;
  const size_t n = together(stage);
  const auto next = std::next(stage.queue.begin(), static_cast<std::ptrdiff_t>(n));
  return n >= std::min<size_t>(stage.batch, longest_queue(stage)) ||
         stage.queue.begin()->second.is_single() || (next != stage.queue.end() && next->second.is_single());
}

// Nothing runs and nothing fits: the oldest sample continues. It alone can be the one that an ordered stage,
// and with it all samples queued there, is waiting for.
bool Scheduler::force_one() {
  if (active_ > 0 || !lineage_.all_told()) return false;
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
  } else if (!source.ended) {
    start_pull();
  } else {
    is_stuck_ = !all_finished();
    return false;
  }
  return true;
}

// More than the bound is in use already: samples that are nearly done go first, so that no other adds to it.
// Emissions that would add more than facts, and everything upstream of them, wait, unless nothing else can
// continue.
bool Scheduler::finish_what_is_large() {
  if (ledger_.bound() == 0 || ledger_.samples().now() <= ledger_.bound()) return false;
  const uint64_t most = ledger_.samples().now() + ledger_.bound() / 16;
  Waiting* leaving = nullptr;
  size_t from = 0;  // first stage that may run
  for (Waiting* waiting : waiting_) {
    const size_t at = waiting->stage->index;
    if (ledger_.samples().after(*waiting->in, waiting->replaced) > most) {
      from = std::max(from, at + 1);
    } else if (!leaving || at > leaving->stage->index ||
               (at == leaving->stage->index && waiting->next < leaving->next)) {
      leaving = waiting;
    }
  }
  const auto furthest =
      std::find_if(stages_.rbegin(), stages_.rend(), [](const auto& s) { return s->runnable(); });
  const bool can_run = furthest != stages_.rend() && (*furthest)->index >= from;
  if (leaving && (!can_run || leaving->stage->index >= (*furthest)->index)) return grant(*leaving), true;
  if (can_run) start_process(**furthest);
  return can_run;
}

// If held inputs take half of the memory and nothing else fits, a stage holds more than batches, and waits
// for samples that would never arrive, or arrive one at a time. The held inputs of the stage that holds most
// no longer count.
bool Scheduler::let_go_of_held() {
  if (ledger_.bound() == 0) return false;
  StageState* most = nullptr;
  uint64_t all = 0, largest = 0;
  for (auto& stage : stages_) {
    const uint64_t bytes = stage->counts_held ? bytes_held(*stage) : 0;
    all += bytes;
    if (bytes > largest) largest = bytes, most = stage.get();
  }
  if (!most || all < ledger_.bound() / 2) return false;
  most->counts_held = false;
  most->let_go = !most->isolated;
  for (auto& slot : most->slots)
    for (auto& [key, held] : slot->held) {
      ledger_.samples().remove(held.weight);
      if (most->let_go) ledger_.beside().add(held.weight), held.beside = std::move(held.weight);
      held.weight = {};
      if (std::exchange(held.whole, false)) held.sample = slim(held.sample);
    }
  log(Log::warn, "stage '" + std::string(most->spec->name) + "' holds " + std::to_string(largest >> 20) +
                     " MiB of samples, more than memory = " + std::to_string(ledger_.bound() >> 20) +
                     " MiB leaves room for; they no longer count");
  return true;
}

// The ledger's decrease without them: bytes that they share with other samples stay.
uint64_t Scheduler::bytes_held(const StageState& stage) {
  const uint64_t before = ledger_.samples().now();
  for (const auto& slot : stage.slots)
    for (const auto& [key, held] : slot->held) ledger_.samples().remove(held.weight);
  const uint64_t without = ledger_.samples().now();
  for (const auto& slot : stage.slots)
    for (const auto& [key, held] : slot->held) ledger_.samples().add(held.weight);
  return before - without;
}

bool Scheduler::can_pull() const {
  return !source.pulling && !source.ended && lineage_.unreported() < queue_ && queues_left(source.to) &&
         ledger_.has_room(source.largest);
}

void Scheduler::start_pull() {
  source.pulling = true;
  Job job{Job::pull};
  job.reserve = source.largest;
  start(std::move(job));
}

void Scheduler::start_process(StageState& stage) {
  Job job{Job::process, &stage};
  for (size_t n = together(stage); n-- > 0; stage.queue.erase(stage.queue.begin())) {
    job.in.push_back(std::move(stage.queue.begin()->second));
    Lineage::begin_work(*job.in.back().track);
  }
  job.slot = free_slot(stage);
  if (!job.slot) job.slot = stage.free.back();  // nothing else runs
  std::erase(stage.free, job.slot);
  job.reserve = stage.largest;
  start(std::move(job));
}

void Scheduler::start_finish(StageState& stage) {
  stage.finishing = true;
  start({Job::finish, &stage});
}

void Scheduler::start(Job job) {
  ++active_;
  ledger_.reserve(job.reserve);
  if (job.stage) {
    take(*job.stage, job.slot);
    ++job.stage->busy;
  }
  ready_.push_back(std::move(job));
}

bool Scheduler::enter(Waiting& waiting) {
  if (fits(waiting)) return account(waiting), true;
  --active_;
  give(*waiting.stage, waiting.slot);
  waiting_.push_back(&waiting);
  return false;
}

void Scheduler::grant(Waiting& waiting) {
  go_on(waiting);
  account(waiting);
  waiting.go(true);
}

void Scheduler::go_on(Waiting& waiting) {
  std::erase(waiting_, &waiting);
  ++active_;
  take(*waiting.stage, waiting.slot);
}

void Scheduler::account(const Waiting& waiting) {
  ByteSum& samples = ledger_.samples();
  const uint64_t before = samples.now();
  const Weight* replaced = waiting.replaced == waiting.out ? nullptr : waiting.replaced;
  if (waiting.out) samples.remove(std::exchange(*waiting.out, {}));
  samples.add(*waiting.in);
  const uint64_t after = samples.now();
  if (after <= before) return;
  StageState& stage = *waiting.stage;
  stage.largest = std::max(stage.largest, after - before);
  if (ledger_.bound() > 0 && after > ledger_.bound() && !stage.said_large)
    say_large(stage, before, after, replaced);
}

// Logged once per stage: tells the user what makes samples larger than the bound.
void Scheduler::say_large(StageState& stage, uint64_t before, uint64_t after, const Weight* replaced) {
  const uint64_t bound = ledger_.bound(), left = ledger_.samples().after({}, replaced),
                 more = left - std::min(left, before);
  if (more == 0 || (before > bound && more < bound / 4)) return;
  stage.said_large = true;
  const auto mib = [](uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; };
  log(Log::warn, of_stage(stage, "a sample that it made " + mib(more) + " larger needs " + mib(after) +
                                     " with the others, more than memory = " + mib(bound) +
                                     "; such samples pass one at a time; raise the job's memory for more"));
}

bool Scheduler::fits(const Waiting& waiting) {
  return queues_left(waiting.stage->to) && ledger_.has_room(*waiting.in, waiting.out);
}

// Samples that wait for their turn before an ordered stage do not mean that it is slow.
uint64_t Scheduler::longest_queue(const StageState& stage) const {
  return queue_ * (stage.in_order ? kOrderedQueue : 1);
}

bool Scheduler::queues_left(const std::vector<StageState*>& to) const {
  if (to.empty()) return lineage_.unreported() < queue_;
  return std::all_of(to.begin(), to.end(),
                     [&](const StageState* next) { return next->queue.size() < longest_queue(*next); });
}

Waiting* Scheduler::oldest_waiting(const StageState* stage) {
  Waiting* oldest = nullptr;
  for (Waiting* waiting : waiting_) {
    if (stage && waiting->stage != stage) continue;
    if (!oldest || waiting->next < oldest->next) oldest = waiting;
  }
  return oldest;
}

// Slots with an instance come before empty ones, as in the list, and those on a node with room before the others.
Slot* Scheduler::free_slot(const StageState& stage) const {
  Slot* without_room = nullptr;
  for (size_t i = stage.free.size(); i-- > 0;) {
    Slot* slot = stage.free[i];
    if (!machine_.has(slot->node, slot->devices, stage.share)) continue;
    if (machine_.has(slot->node, stage.need) == Answer::yes) return slot;
    if (!without_room) without_room = slot;
  }
  return without_room;
}

// finish() of a stage counts on the first node.
void Scheduler::take(const StageState& stage, const Slot* slot) {
  machine_.take(slot ? slot->node : 0, stage.need, slot ? slot->devices : std::vector<size_t>{}, stage.share);
}

void Scheduler::give(const StageState& stage, const Slot* slot) {
  machine_.give(slot ? slot->node : 0, stage.need, slot ? slot->devices : std::vector<size_t>{}, stage.share);
}

bool Scheduler::upstream_finished(const StageState& stage) const {
  if (stage.spec->n_from == 0) return source.ended;
  return std::all_of(stage.spec->from, stage.spec->from + stage.spec->n_from,
                     [&](uint32_t from) { return stages_[from]->finished; });
}

bool Scheduler::all_finished() const {
  return source.ended && !source.pulling && lineage_.all_told() &&
         std::all_of(stages_.begin(), stages_.end(), [](const auto& stage) { return stage->finished; });
}

void Scheduler::hand_on(const std::vector<StageState*>& to, Origin from, Sample sample, Weight weight,
                        std::vector<Sample> copies) {
  if (to.empty()) return lineage_.end(from.track, {}, std::move(sample), std::move(weight));
  for (size_t i = to.size(); i-- > 0;) {
    if (i > 0) ledger_.samples().add(weight);
    const auto track = i > 0 ? Lineage::child({from.track}, copies[i - 1].key()) : from.track;
    Item item{i > 0 ? std::move(copies[i - 1]) : std::move(sample), weight,
              to.size() > 1 ? below(from.place, i) : from.place, track};
    expect(*to[i], item.place, 0);
    put_back(*to[i], std::move(item));
  }
}

void Scheduler::expect(StageState& stage, const Place& place, uint64_t emitted) {
  for (StageState* next : stage.ordered) next->ahead.add(below(place, emitted));
}

void Scheduler::expect_no_more(StageState& stage, const Place& place, uint64_t emitted) {
  for (StageState* next : stage.ordered) next->ahead.remove(below(place, emitted));
}

void Scheduler::put_back(StageState& stage, Item item) {
  Place place = item.place;
  stage.queue.emplace(std::move(place), std::move(item));
}

}  // namespace kinora::engines
