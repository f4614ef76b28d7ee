#include "apps/planner/train_job.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/suggest.hpp"
#include "core/config/document.hpp"
#include "core/plugin/service.hpp"
#include "plugins/jobs/train/training_plans.hpp"

namespace kinora::core::plan {
namespace {

const std::map<std::string, Sequence>& sequences() {
  static const std::map<std::string, Sequence> all{{"parallel/cp-ring", Sequence::ring},
                                                   {"parallel/cp-ulysses", Sequence::ulysses},
                                                   {"parallel/cp-2d", Sequence::two_d},
                                                   {"parallel/stdit-hybrid", Sequence::hybrid},
                                                   {"parallel/balanced-sp", Sequence::balanced}};
  return all;
}

void of_pipeline(Layout& l, const nlohmann::json& o) {
  const std::string schedule = o.value("schedule", "1f1b");
  l.schedule = schedule == "gpipe"         ? Schedule::gpipe
               : schedule == "interleaved" ? Schedule::interleaved
                                           : Schedule::one_f_one_b;
  const auto stages = o.value("virtual", int64_t{0});
  l.virtual_stages = stages > 0 ? stages : l.schedule == Schedule::interleaved ? 2 : 1;
  l.send_conditioning = o.value("conditioning", "recompute") == "send";
}

// Adds a strategy's options to the layout; returns the size of the axis that it splits, null if none.
Result<int64_t*> add(Layout& l, const std::string& id, const nlohmann::json& o) {
  if (id == "parallel/ddp") return &l.dp;
  if (id == "parallel/tp") return &l.tp;
  if (id == "parallel/fsdp") return l.stage = o.value("stage", int64_t{3}), &l.fsdp;
  if (id == "parallel/pp") return of_pipeline(l, o), &l.pp;
  if (const auto it = sequences().find(id); it != sequences().end())
    return l.sequence = it->second, l.ulysses = o.value("ulysses", int64_t{1}), &l.cp;
  if (id == "parallel/recompute") l.recompute_every = o.value("every", int64_t{1});
  if (id == "parallel/recompute" || id == "parallel/single") return static_cast<int64_t*>(nullptr);
  return fail(KINORA_ERROR_UNSUPPORTED, "{} has no model of its time and memory; only Kinora's strategies do",
              id);
}

// The job with the strategies of a layout.
JobSpec with_layout(const JobView& train, const Layout& l) {
  JobSpec job = train.spec();
  std::erase_if(job.components, [](const ComponentUse& use) { return use.slot == "parallel"; });
  const auto doc = or_throw(Document::parse(l.toml(), "layout"));
  for (nlohmann::json options : doc.root().at("parallel")) {
    const auto* spec =
        or_throw(train.runtime().registry().find("parallel", options.at("use").get<std::string>()));
    options.erase("use");
    job.components.push_back({"parallel", spec->id, or_throw(Options::make(*spec, options)), "", job.at});
  }
  return job;
}

// Asks whether a precision refuses a layout, once for each size of tp and each strategy of cp: the other parts cut
// no number and no attention.
class Refusals {
 public:
  explicit Refusals(const JobView& train) : train_(train) {}
  std::string operator()(const Layout& l) {
    Layout tensor, sequence;
    tensor.tp = l.tp;
    sequence.cp = l.cp, sequence.sequence = l.sequence, sequence.ulysses = l.ulysses;
    if (l.tp > 1)
      if (std::string why = asked(fmt::format("tp={}", l.tp), tensor); !why.empty()) return why;
    return l.cp > 1 ? asked(name_of(l.sequence), sequence) : "";
  }

 private:
  std::string asked(const std::string& key, const Layout& l) {
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    const JobSpec job = with_layout(train_, l);
    return known_[key] = service<TrainingPlans>(train_.runtime().registry())
                             .layout_refusal({train_.runtime(), train_.run(), job}, l.size());
  }
  JobView train_;
  std::map<std::string, std::string> known_;
};

}  // namespace

Result<const JobSpec*> planned_job(const RunFile& run, std::string_view kind, const std::string& name) {
  std::vector<std::string> names;
  const JobSpec* found = nullptr;
  for (const auto& job : run.jobs) {
    if (job.kind->name != kind) continue;
    names.push_back(job.name);
    if (name.empty() || job.name == name) found = &job;
  }
  if (name.empty() && names.size() > 1)
    return fail(KINORA_ERROR_INVALID, "plan: which {} job? --job {}{}", kind, names[0],
                did_you_mean_or_list("", names, "there are"));
  if (!found)
    return fail(KINORA_ERROR_INVALID, "plan: {} has no {} job{}{}", run.file.filename().string(), kind,
                name.empty() ? "" : " '" + name + "'",
                name.empty() ? "" : did_you_mean_or_list(name, names, "there are"));
  return found;
}

Result<const JobSpec*> train_job(const RunFile& run, const std::string& name) {
  for (const auto& job : run.jobs)
    if (job.kind->name == "distill" && job.name == name)
      return fail(
          KINORA_ERROR_UNSUPPORTED,
          "plan: job '{}' is of kind distill, with three networks and rollouts, which cannot be simulated; "
          "name a train job",
          name);
  const auto is_of = [](std::string_view kind) {
    return [kind](const JobSpec& job) { return job.kind->name == kind; };
  };
  auto found = planned_job(run, "train", name);
  if (!found && std::ranges::none_of(run.jobs, is_of("train")) &&
      std::ranges::any_of(run.jobs, is_of("curate")))
    return fail(found.failure().code, "{}; for a curate job: --curate", found.failure().message);
  return found;
}

Result<LatentSize> parse_latent(std::string_view text) {
  LatentSize out{};
  const char *at = text.data(), *end = text.data() + text.size();
  for (size_t i = 0; i < 3; ++i) {
    const auto [next, error] = std::from_chars(at, end, out[i]);
    if (error != std::errc() || out[i] < 1 || (i < 2 ? next == end || *next != 'x' : next != end))
      return fail(KINORA_ERROR_INVALID, "--latent {}: expected FRAMESxROWSxCOLUMNS, such as 21x90x160", text);
    at = next + (i < 2 ? 1 : 0);
  }
  return out;
}

Result<Problem> problem_of(const JobView& train, const Cluster& cluster,
                           const std::optional<LatentSize>& latent) {
  const auto outline =
      catching([&] { return service<TrainingPlans>(train.runtime().registry()).outline(train, latent); });
  if (!outline) return outline.failure();
  auto shape = shape_of(*outline);
  if (!shape) return shape.failure();
  const auto& options = train.spec().options;
  shape->teacher_forcing = options.value("teacher_forcing", false);
  shape->block_frames = options.value("chunk", int64_t{1});
  Problem out{std::move(*shape), cluster, {}, options.at("batch").get<int64_t>()};
  const auto* precision = train.spec().component("precision");
  if (!precision) return out;
  out.precision = precision->called();
  if (!std::set<std::string>{"fp32", "fp64", "bf16"}.contains(out.precision))
    out.refusal = [asked = std::make_shared<Refusals>(train)](const Layout& l) { return (*asked)(l); };
  return out;
}

Result<std::optional<Layout>> layout_of(const JobSpec& job, const Problem& p) {
  Layout l;
  bool any = false;
  std::set<int64_t*> sized;
  int64_t* rest = nullptr;  // size that takes the remaining ranks
  for (const ComponentUse* use : job.list("parallel")) {
    const auto found = add(l, use->id, use->options.values());
    if (!found) return found.failure();
    any = any || use->id != "parallel/single";
    if (!*found) continue;
    if (!sized.insert(*found).second)
      return fail(KINORA_ERROR_INVALID, "{} splits along an axis that already has a strategy", use->id);
    const auto size = use->options.values().value("size", int64_t{0});
    if (size > 0) **found = size;
    if (size == 0 && std::exchange(rest, *found))
      return fail(KINORA_ERROR_INVALID, "two strategies would take the remaining ranks; give {} a size",
                  use->id);
  }
  if (!any) return std::optional<Layout>();
  if (rest && p.cluster.size() % l.size() == 0) *rest = p.cluster.size() / l.size();
  const int64_t microbatches = l.data() * job.options.at("accumulate").get<int64_t>();
  if (p.batch % microbatches)
    return fail(KINORA_ERROR_INVALID, "batch = {} is not divisible by dp*fsdp*accumulate = {}; {} would do",
                p.batch, microbatches, (p.batch / microbatches + 1) * microbatches);
  l.micro = p.batch / microbatches;
  return std::optional<Layout>(l);
}

namespace {

// Offset of the start of a line (counted from 1).
size_t line_start(const std::string& text, int line) {
  size_t at = 0;
  for (int i = 1; i < line; ++i) at = text.find('\n', at) + 1;
  return at;
}

// Offset behind the value that begins at `at`, after its closing bracket; strings and comments may contain
// brackets.
size_t value_end(const std::string& text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      for (++at; at < text.size() && text[at] != c; ++at)
        if (c == '"' && text[at] == '\\') ++at;
    } else if (c == '#') {
      at = std::min(text.find('\n', at), text.size()) - 1;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == '\n' && depth <= 0) {
      break;
    }
  }
  return std::min(at, text.size());
}

std::optional<size_t> job_index(const nlohmann::json& root, const std::string& job) {
  const auto jobs = root.value("job", nlohmann::json::array());
  for (size_t i = 0; i < jobs.size(); ++i)
    if (jobs[i].value("name", "") == job) return i;
  return std::nullopt;
}

}  // namespace

Result<std::string> with_values(std::string text, const std::string& job,
                                const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [key, line] : values) {
    const auto doc = Document::parse(text, "run file");
    if (!doc) return doc.failure();
    const auto index = job_index(doc->root(), job);
    if (!index) return fail(KINORA_ERROR_NOT_FOUND, "plan: the file has no job '{}'", job);
    const std::string at = "/job/" + std::to_string(*index);
    const bool has = doc->root()["job"][*index].contains(key);
    const int found = doc->key(at + (has ? "/" + key : "/name")).line;
    const size_t begin = line_start(text, found), end = value_end(text, text.find('=', begin));
    if (has)
      text.replace(begin, end - begin, line);
    else
      text.insert(end, "\n" + line);
  }
  return text;
}

}  // namespace kinora::core::plan
