#include "plugins/engines/common/scheduler.hpp"

#include <algorithm>
#include <limits>

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

// The place where most was added, and how much.
Reserve growth_of(const std::vector<uint64_t>& before, const std::vector<uint64_t>& after) {
  Reserve out;
  for (size_t place = 0; place < after.size(); ++place) {
    const uint64_t had = place < before.size() ? before[place] : 0;
    if (after[place] > had && after[place] - had > out.bytes) out = {place, after[place] - had};
  }
  return out;
}

}  // namespace

Scheduler::Scheduler(Stages& stages, const std::vector<Tokens>& nodes, uint64_t queue, Ledger& ledger,
                     Lineage& lineage)
    : stages_(stages),
      queue_(queue),
      ledger_(ledger),
      lineage_(lineage),
      machine_(nodes),
      at_work_(stages.size(), std::vector<int64_t>(nodes.size())),
      open_(stages.size()),
      least_cores_(std::numeric_limits<double>::infinity()),
      waits_(stages.size()) {
  for (auto& stage : stages_) {
    if (stage->spec->n_from == 0) source.to.push_back(stage.get());
    if (!stage->here) least_cores_ = std::min(least_cores_, stage->need.cores);
  }
  for (const Tokens& node : nodes) ledger_.add_node(node.samples);
  for (size_t node = 0; node < nodes.size(); ++node) look_at(node);
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
  end_copies(*job.slot);
  move(*job.stage, *job.slot, false);
  job.stage->free.put(*job.slot);
}

void Scheduler::lose_slot(Job& job) {
  give(*job.stage, job.slot);
  end_copies(*job.slot);
  job.slot = nullptr;
  take(*job.stage, nullptr);
}

void Scheduler::close(bool wake) {
  closed_ = true;
  if (!wake) return;
  active_ -= ready_.size();  // never started
  ready_.clear();
  for (auto& waits : waits_)
    while (!waits.empty()) {
      Waiting& waiting = **waits.begin();
      go_on(waiting);
      waiting.go(false);
    }
}

bool Scheduler::start_one() {
  machine_.release();
  for (size_t i = stages_.size(); i-- > 0;) {
    const Answer answer = advance_again(*stages_[i]);
    if (answer == Answer::yes) return true;
    if (answer == Answer::wait) return false;
  }
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
  if (may_finish(stage)) {
    const Answer answer = ask(0, stage);
    if (answer == Answer::yes) start_finish(stage);
    return answer;
  }
  if (Waiting* waiting = oldest_waiting(stage);
      waiting && fits(*waiting) && machine_.has(waiting->slot->node, waiting->slot->devices, stage.share)) {
    const Answer answer = ask(waiting->slot->node, stage);
    if (answer == Answer::yes) grant(*waiting);
    return answer;
  }
  if (!stage.remakes.empty()) return Answer::no;
  if (!stage.runnable() || !queues_left(stage.to) || !(has_full_batch(stage) || upstream_finished(stage)))
    return Answer::no;
  Slot* slot = free_slot(stage, further);
  if (!slot || !(slot->instance || may_make(stage, further))) return Answer::no;
  // Upstream would only add to a memory that is already full.
  if (!has_room_for(stage, *slot)) return is_full(stage) ? Answer::wait : Answer::no;
  const Answer answer = ask(slot->node, stage);
  if (answer == Answer::yes) start_process(stage, slot);
  return answer;
}

// What was lost comes first, and had its room before.
Scheduler::Answer Scheduler::advance_again(StageState& stage) {
  if (stage.remakes.empty() || stage.finishing) return Answer::no;
  Slot* slot = free_slot(stage, true);
  if (!slot || !(slot->instance || may_make(stage, true))) return Answer::no;
  const Answer answer = ask(slot->node, stage);
  if (answer == Answer::yes) start_process(stage, slot);
  return answer;
}

// A task that waits for cores of one node does not keep the others from work. What was on a node that has gone takes
// nothing any more.
Scheduler::Answer Scheduler::ask(size_t node, const StageState& stage) {
  if (stage.here || machine_.has_lost(node)) return Answer::yes;
  const Answer answer = machine_.has(node, stage.need);
  if (answer != Answer::wait) return answer;
  return machine_.hold(node) ? Answer::wait : Answer::no;
}

bool Scheduler::may_make(const StageState& stage, bool further) const {
  const size_t have = stage.have();
  if (have == 0) return true;
  if (!further) return !stage.planned.empty() || have < stage.wanted;
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
// and with it all samples queued there, is waiting for. Without samples, the first stage that may finish does, also if
// the first node never has what it needs.
bool Scheduler::force_one() {
  if (active_ > 0 || !lineage_.all_told()) return false;
  if (let_go_of_held() || finish_what_is_large()) return true;
  StageState* oldest = nullptr;
  for (auto& stage : stages_)
    if (stage->runnable() && (!oldest || stage->first() < oldest->first())) oldest = stage.get();
  Waiting* waiting = oldest_waiting();
  if (waiting && (!oldest || waiting->next < oldest->first())) {
    grant(*waiting);
  } else if (oldest) {
    force_process(*oldest);
  } else if (!source.ended) {
    start_pull();
  } else if (const auto last = std::find_if(stages_.begin(), stages_.end(),
                                            [&](const auto& stage) { return may_finish(*stage); });
             last != stages_.end()) {
    start_finish(**last);
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
  if (!ledger_.is_over()) return false;
  Waiting* leaving = nullptr;
  size_t from = 0;  // first stage that may run
  for (size_t at = 0; at < waits_.size(); ++at) {
    bool is_first = true;
    for (Waiting* waiting : waits_[at]) {
      if (ledger_.adds_much(*waiting->in, waiting->replaced))
        from = std::max(from, at + 1);
      else if (std::exchange(is_first, false))
        leaving = waiting;
    }
  }
  const auto furthest =
      std::find_if(stages_.rbegin(), stages_.rend(), [](const auto& s) { return s->runnable(); });
  const bool can_run = furthest != stages_.rend() && (*furthest)->index >= from;
  if (leaving && (!can_run || leaving->stage->index >= (*furthest)->index)) return grant(*leaving), true;
  if (can_run) force_process(**furthest);
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

// The decrease without them where it is largest: bytes that they share with other samples stay.
uint64_t Scheduler::bytes_held(const StageState& stage) {
  const std::vector<uint64_t> before = ledger_.samples().by_place();
  for (const auto& slot : stage.slots)
    for (const auto& [key, held] : slot->held) ledger_.samples().remove(held.weight);
  const std::vector<uint64_t> without = ledger_.samples().by_place();
  for (const auto& slot : stage.slots)
    for (const auto& [key, held] : slot->held) ledger_.samples().add(held.weight);
  return growth_of(without, before).bytes;
}

bool Scheduler::can_pull() const {
  return !source.pulling && !source.ended && lineage_.unreported() < queue_ && queues_left(source.to) &&
         ledger_.has_room(0, source.largest) && !remakes();
}

// What was lost comes before new inputs.
bool Scheduler::remakes() const {
  return std::any_of(stages_.begin(), stages_.end(),
                     [](const auto& stage) { return !stage->remakes.empty() || stage->expects > 0; });
}

void Scheduler::start_pull() {
  source.pulling = true;
  Job job{Job::pull};
  job.reserve.bytes = source.largest;
  start(std::move(job));
}

// Nothing else runs.
void Scheduler::force_process(StageState& stage) {
  Slot* slot = free_slot(stage, true);
  start_process(stage, slot ? slot : &stage.free.last());
}

void Scheduler::start_process(StageState& stage, Slot* slot) {
  Job job{Job::process, &stage};
  job.slot = slot;
  stage.free.take(*job.slot);
  job.slot->copies = copies_of(stage, *job.slot);
  ledger_.samples().add(job.slot->copies);
  if (!stage.remakes.empty()) {
    job.in.push_back(std::move(stage.remakes.front()));
    stage.remakes.pop_front();
  } else {
    for (size_t n = together(stage); n-- > 0; stage.queue.erase(stage.queue.begin()))
      job.in.push_back(std::move(stage.queue.begin()->second));
  }
  for (const Item& item : job.in)
    if (!item.passed) Lineage::begin_work(*item.track);
  job.reserve = {place_of(stage, *job.slot), stage.largest};
  start(std::move(job));
}

void Scheduler::start_finish(StageState& stage) {
  stage.finishing = stage.closed = true;
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
  waits_[waiting.stage->index].insert(&waiting);
  ++waiting_;
  return false;
}

void Scheduler::grant(Waiting& waiting) {
  go_on(waiting);
  account(waiting);
  waiting.go(true);
}

void Scheduler::go_on(Waiting& waiting) {
  auto& waits = waits_[waiting.stage->index];
  waits.erase(std::find(waits.lower_bound(&waiting), waits.end(), &waiting));
  --waiting_;
  ++active_;
  take(*waiting.stage, waiting.slot);
}

void Scheduler::account(const Waiting& waiting) {
  ByteSum& samples = ledger_.samples();
  const std::vector<uint64_t> before = samples.by_place();
  const Weight* replaced = waiting.replaced == waiting.out ? nullptr : waiting.replaced;
  if (waiting.out) samples.remove(std::exchange(*waiting.out, {}));
  samples.add(*waiting.in);
  const Reserve more = growth_of(before, samples.by_place());
  StageState& stage = *waiting.stage;
  stage.largest = std::max(stage.largest, more.bytes);
  const uint64_t after = samples.now(more.place);
  if (more.bytes > 0 && ledger_.is_over(more.place) && !stage.said_large)
    say_large(stage, more.place, after - more.bytes, after, replaced);
}

// Logged once per stage: tells the user what makes samples larger than the bound.
void Scheduler::say_large(StageState& stage, size_t place, uint64_t before, uint64_t after,
                          const Weight* replaced) {
  const uint64_t bound = ledger_.bound(place), left = ledger_.samples().after({}, replaced)[place],
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

// For each node: with one queue of 64 a thousand nodes reach 0.7 of the bound, since less waits than workers end at
// once. Samples that wait for their turn before an ordered stage do not mean that it is slow.
uint64_t Scheduler::longest_queue(const StageState& stage) const {
  return queue_ * std::max<size_t>(1, machine_.nodes_left()) * (stage.in_order ? kOrderedQueue : 1);
}

bool Scheduler::queues_left(const std::vector<StageState*>& to) const {
  if (to.empty()) return lineage_.unreported() < queue_;
  return std::all_of(to.begin(), to.end(),
                     [&](const StageState* next) { return next->queue.size() < longest_queue(*next); });
}

Waiting* Scheduler::oldest_waiting(const StageState& stage) const {
  const auto& waits = waits_[stage.index];
  return waits.empty() ? nullptr : *waits.begin();
}

Waiting* Scheduler::oldest_waiting() const {
  Waiting* oldest = nullptr;
  for (const auto& stage : stages_) {
    Waiting* waiting = oldest_waiting(*stage);
    if (waiting && (!oldest || waiting->next < oldest->next)) oldest = waiting;
  }
  return oldest;
}

bool Scheduler::may_finish(const StageState& stage) const {
  return !stage.finished && !stage.finishing && !stage.has_more() && stage.busy == 0 &&
         upstream_finished(stage);
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
  if (from.keeps) lineage_.keep(*from.track, sample, weight, from.after);
  for (size_t i = to.size(); i-- > 0;) {
    if (i > 0) ledger_.samples().add(weight);
    const auto track = i > 0 ? Lineage::child({from.track}, copies[i - 1].key(), from.after + 1) : from.track;
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
  if (!item.remake) {
    Place place = item.place;
    stage.queue.emplace(std::move(place), std::move(item));
    return;
  }
  // It must not meet what an instance holds, nor come after finish().
  item.alone = item.alone || stage.holds || stage.closed;
  if (std::exchange(stage.finished, false)) stage.finishing = false;
  stage.remakes.push_back(std::move(item));
}

}  // namespace kinora::engines
