// Samples whose bytes are gone: each returns to its nearest ancestor that the engine has whole, and is made again.
//
// A lost sample keeps its record, its place and what was told of it; only its bytes come again. The ancestor runs
// through the stages beside the others, in `remakes` instead of the queues, and each stage gives again what it gave
// (abi/stage.h). Of that a lost sample goes to where it was, what leads to a lost one runs on, and the rest is dropped:
// it was told before, or is still there. Stages that see their input in order, or several inputs together, are not run
// again: what they emitted is kept whole.
#include "plugins/engines/common/task.hpp"

namespace kinora::engines {

void Runner::lose(const std::function<bool(const Sample&)>& is_lost) {
  const Lock lock(mutex_);
  if (stopping()) return;
  losses_.push_back(is_lost);
  find_lost();
  dispatch();
}

bool Runner::is_lost(const Sample& sample) const {
  return std::any_of(losses_.begin(), losses_.end(), [&](const auto& holds) { return holds(sample); });
}

// What a task works on is looked at when its call has failed: until then its sample is the task's own. What an instance
// holds it still has; it comes to the queue if the instance dies.
void Runner::find_lost() {
  if (losses_.empty()) return;
  std::vector<Lost> lost;
  for (auto& stage : stages_) {
    for (auto at = stage->queue.begin(); at != stage->queue.end();) {
      const auto item = at++;
      if (!is_lost(item->second.sample)) continue;
      lost.push_back({std::move(item->second), stage.get()});
      stage->queue.erase(item);
    }
    for (size_t n = stage->remakes.size(); n-- > 0; stage->remakes.pop_front()) {
      Item item = std::move(stage->remakes.front());
      if (!is_lost(item.sample)) {
        stage->remakes.push_back(std::move(item));
        continue;
      }
      ledger_.samples().remove(item.weight);
      --item.remake->running;
      take_all(*item.remake, lost);
    }
  }
  for (const auto& track : lineage_.lose([this](const Sample& sample) { return is_lost(sample); }))
    lost.push_back(
        {{*std::exchange(track->sample, std::nullopt), std::exchange(track->weight, {}), {}, track},
         nullptr});
  lose(std::move(lost));
}

// The call of one sample has failed: whether that is because its input is lost. What a stage of this process has
// emitted of it is not known any more; and the state of an ordered stage is lost with its process.
bool Runner::loses_input(Task& task, int32_t status) {
  if (status == KINORA_OK || status == KINORA_ERROR_CANCELLED || status == KINORA_ERROR_REFUSED) return false;
  const Instance& instance = *task.slot->instance;
  if (instance.ended() && !task.stage.may_start_anew) return false;
  const Lock lock(mutex_);
  return (!task.touched || instance.is_apart()) && is_lost(task.in->sample);
}

void Runner::lose_input(Task& task) {
  ++task.stage.figures.retried;
  Item item = std::move(*task.in);
  item.alone = item.alone || task.again;
  item.emitted = task.emitted;
  item.told = std::move(task.told);
  item.passed = task.ended;
  if (!item.passed) lineage_.end_work(item.track);
  std::vector<Lost> lost;
  lost.push_back({std::move(item), &task.stage});
  lose(std::move(lost));
}

void Runner::lose(std::vector<Lost> lost) {
  Roots roots;
  for (Lost& one : lost) {
    ledger_.samples().remove(one.item.weight);
    one.item.sample = slim(one.item.sample);
    one.item.weight = weigh(one.item.sample);
    ledger_.samples().add(one.item.weight);
    expect_again(one, true);
    const std::string why = plan(one, roots);
    if (why.empty()) continue;
    expect_again(one, false);
    fail_lost(std::move(one), why);
  }
  for (auto& [of, remake] : roots) {
    const auto& [track, whole] = of;
    pass_on_again(whole->after, remake, whole->sample.clone(track->key));
  }
}

// A stage waits for a lost sample as if it were in its queue.
void Runner::expect_again(const Lost& one, bool expects) {
  if (!one.at) return;
  one.at->expects += expects ? 1 : -1;
  if (!one.at->in_order) return;
  if (expects)
    one.at->ahead.add(one.item.place);
  else
    one.at->ahead.remove(one.item.place);
}

const Whole* Runner::whole_of(const Track& track, size_t before) const {
  const auto at = std::find_if(track.wholes.rbegin(), track.wholes.rend(), [&](const Whole& whole) {
    return whole.after < before && (whole.after == 0 || !is_lost(whole.sample));
  });
  return at == track.wholes.rend() ? nullptr : &*at;
}

// Adds the way from an ancestor that is whole to the lost sample. Returns why it cannot be made again, or "".
std::string Runner::plan(Lost& one, Roots& roots) {
  const int64_t losses = ++one.item.track->losses;
  if (losses > settings_.node_losses)
    return "its bytes were lost " + std::to_string(losses) + " times; raise the engine's node_losses";
  Tracks way{one.item.track};
  // What the stage that needs it emitted of it is no way to it.
  const Whole* whole = whole_of(*way.back(), one.at ? one.at->index + 1 : SIZE_MAX);
  while (!whole) {
    const Track& made = *way.back();
    if (made.parents.size() != 1)
      return "its bytes were lost, and it was made of " + std::to_string(made.parents.size()) +
             " samples together, which is not done again; run the job again with --retry-failed";
    way.push_back(made.parents.front());
    whole = whole_of(*way.back(), made.since);
  }
  auto* remake = &roots[{way.back().get(), whole}];
  for (size_t i = way.size(); i-- > 0;) {
    if (!*remake) *remake = std::make_shared<Remake>(way[i]);
    if (i > 0) remake = &(*remake)->below[{way[i - 1]->key, way[i - 1]->since}];
  }
  (*remake)->lost.push_back(std::move(one));
  return "";
}

// after: as of Whole.
void Runner::pass_on_again(size_t after, const std::shared_ptr<Remake>& remake, Sample sample) {
  const auto& to = after == 0 ? scheduler_.source.to : stages_[after - 1]->to;
  for (size_t i = 1; i < to.size(); ++i) {
    const std::string key = to[i]->branch_key(sample.key());
    if (const auto copy = remake->below.extract({key, after + 1}))
      arrive_again(after, to[i], copy.mapped(), sample.clone(key));
  }
  arrive_again(after, to.empty() ? nullptr : to.front(), remake, std::move(sample));
}

void Runner::arrive_again(size_t after, StageState* at, const std::shared_ptr<Remake>& remake,
                          Sample sample) {
  for (size_t i = remake->lost.size(); i-- > 0;) {
    if (remake->lost[i].at != at) continue;
    Lost one = std::move(remake->lost[i]);
    remake->lost.erase(remake->lost.begin() + static_cast<std::ptrdiff_t>(i));
    give_back(std::move(one), sample.clone(sample.key()));
  }
  if (!remake->leads_on(after) || (!at && remake->running > 0)) return;
  if (!at)
    return fail_all(
        *remake, "it left the pipeline before; fix the stages: each emits the same keys in the same order");
  if (at->in_order && !at->may_start_anew)
    return fail_all(*remake, of_stage(*at, "keeps state from sample to sample, so it cannot give it again"));
  Weight weight = weigh(sample);
  ledger_.samples().add(weight);
  ++remake->running;
  Item item{std::move(sample), std::move(weight), {}, remake->track};
  item.single = true;
  item.remake = remake;
  Scheduler::put_back(*at, std::move(item));
}

// The lost sample's bytes have come again.
void Runner::give_back(Lost one, Sample sample) {
  expect_again(one, false);
  Item& item = one.item;
  ledger_.samples().remove(item.weight);
  item.sample = std::move(sample);
  item.weight = weigh(item.sample);
  ledger_.samples().add(item.weight);
  if (one.at) return Scheduler::put_back(*one.at, std::move(item));
  lineage_.end(item.track, {}, std::move(item.sample), std::move(item.weight));
}

void Runner::emitted_again(Task& task, Sample sample) {
  const size_t after = task.stage.index + 1;
  std::shared_ptr<Remake> remake;
  if (sample.key() == task.key) {
    if (!std::exchange(task.ended, true)) remake = task.in->remake;
  } else if (const auto made = task.in->remake->below.extract({std::string(sample.key()), after})) {
    remake = made.mapped();
  }
  if (!remake) return;
  if (!is_lost(sample)) return pass_on_again(after, remake, std::move(sample));
  std::vector<Lost> lost;
  take_all(*remake, lost);
  lose(std::move(lost));
}

// What is still to do for a sample, and for those made of it, begins anew.
void Runner::take_all(Remake& remake, std::vector<Lost>& out) {
  for (Lost& one : std::exchange(remake.lost, {})) {
    expect_again(one, false);
    out.push_back(std::move(one));
  }
  for (auto& [key, made] : std::exchange(remake.below, {})) take_all(*made, out);
}

// A call that only makes samples again is over.
void Runner::ended_again(StageState& stage, Item& in, int32_t status, const std::string& message) {
  ledger_.samples().remove(std::exchange(in.weight, {}));
  Remake& remake = *in.remake;
  --remake.running;
  if (ends_run(stage, status, message)) return;
  std::vector<Lost> lost;
  if (status != KINORA_OK && is_lost(in.sample)) {
    take_all(remake, lost);
    return lose(std::move(lost));
  }
  if (remake.running > 0) return;
  fail_all(remake,
           of_stage(stage, status == KINORA_OK ? "did not emit it again; fix the stage: it emits the same "
                                                 "keys in the same order whenever it has the same input"
                                               : message));
}

void Runner::fail_all(Remake& remake, const std::string& why) {
  std::vector<Lost> lost;
  take_all(remake, lost);
  for (Lost& one : lost)
    fail_lost(std::move(one),
              "its bytes were lost, and it could not be made again of '" + remake.track->key + "': " + why);
}

// Its outcome: it is not made again.
void Runner::fail_lost(Lost one, const std::string& message) {
  StageState& stage = one.at ? *one.at : *stages_.back();
  Item& item = one.item;
  if (one.at) Scheduler::expect_no_more(stage, item.place, item.emitted);
  if (!item.passed)
    return fail(item.track, stage, KINORA_ERROR_FAILED, message, std::move(item.sample),
                std::move(item.weight));
  lineage_.end_work(item.track);
  ledger_.samples().remove(item.weight);
  ++stage.figures.errors_after;
  log(Log::warn, of_stage(stage, item.track->key + ": " + message +
                                     "; the stage had already emitted or dropped the sample, so its outcome "
                                     "does not change"));
}

}  // namespace kinora::engines
