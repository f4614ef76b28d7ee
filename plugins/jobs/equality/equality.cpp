#include "plugins/jobs/equality/equality.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include <ATen/ATen.h>

#include "core/run/job.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/strategy.hpp"
#include "plugins/jobs/training/norms.hpp"
#include "plugins/jobs/training/optimizer.hpp"

namespace kinora::core {
namespace {

// A train job that is never run: supplies the strategies, precision and model of a trial.
class TrialJob {
 public:
  // lines: of a run file's train job. Throws Error(KINORA_ERROR_INVALID) with all errors in them.
  TrialJob(Runtime&, const std::string& lines);
  TrialJob(const TrialJob&) = delete;
  TrialJob& operator=(const TrialJob&) = delete;
  ~TrialJob();
  JobContext& context() { return *context_; }

 private:
  RunFile run_;
  std::optional<JobContext> context_;
};

JobSpec spec_of(const Document& document, const Registry& registry) {
  std::vector<Diagnostic> problems;
  JobSpec job;
  job.name = "trial";
  job.kind = or_throw(registry.find("job/train"));
  job.options = or_throw(Options::make(*job.kind, json::object())).values();
  const auto add = [&](const Slot& slot, const std::string& pointer, const json& given) {
    auto use = read_component(document, registry, pointer, slot.kind, {}, problems, given);
    if (!use) return;
    use->slot = slot.name;
    job.components.push_back(std::move(*use));
  };
  for (const auto& slot : job.kind->slots) {
    const json given = document.root().value(slot.name, json());
    if (given.is_array()) {
      for (size_t i = 0; i < given.size(); ++i) add(slot, fmt::format("/{}/{}", slot.name, i), given[i]);
    } else if (!given.is_null()) {
      add(slot, "/" + slot.name, given);
    }
  }
  std::string all;
  for (const auto& p : problems) all += (all.empty() ? "" : "; ") + p.message;
  if (!all.empty()) throw Error(KINORA_ERROR_INVALID, all);
  return job;
}

TrialJob::TrialJob(Runtime& runtime, const std::string& lines) {
  run_.seed = 3;
  run_.jobs.push_back(spec_of(or_throw(Document::parse(lines, "trial")), runtime.registry()));
  std::string folder = (std::filesystem::temp_directory_path() / "kinora-trial-XXXXXX").string();
  if (!mkdtemp(folder.data()))
    raise(KINORA_ERROR_IO, "{}: cannot be made; set TMPDIR to a folder that can be written to", folder);
  run_.out = folder;
  context_.emplace(runtime, run_, run_.jobs[0], false);
}

TrialJob::~TrialJob() {
  std::error_code ignored;
  std::filesystem::remove_all(run_.out, ignored);
}

using at::Tensor;

// AdamW divides by the gradient's size: in float32 the rounding of small gradients would dominate.
std::string optimizer_of(const Trial& t) {
  if (!t.optimizer.empty()) return t.optimizer;
  return fmt::format("{{ use = 'adamw', beta2 = 0.999, eps = {} }}", t.is_exact() ? 1e-4 : 1e-2);
}

std::string lines_of(const Trial& t) {
  const std::string precision = t.precision.starts_with("{") ? t.precision : "'" + t.precision + "'";
  return "optimizer = " + optimizer_of(t) + "\ncollective = " + t.collective + "\nprecision = " + precision +
         "\nparallel = " + t.parallel + "\nmodel = " + t.model + "\n";
}

Tensor gradient_of(const Tensor& t) { return t.grad().defined() ? t.grad() : at::zeros_like(t); }

// The factor of `want` that gives `have`; 0: they are not proportional.
double proportion(const Tensor& have, const Tensor& want) {
  const double square = want.square().sum().item<double>();
  const double times = square > 0 ? (have * want).sum().item<double>() / square : 0;
  const double rest = (have - want * times).abs().max().item<double>();
  return rest <= 1e-6 * want.abs().max().item<double>() ? times : 0;
}

}  // namespace

std::string Compared::what() const {
  switch (kind) {
    case Compared::Kind::held:
      return "parameters held by all ranks together";
    case Compared::Kind::output:
      return "output";
    case Compared::Kind::loss:
      return "loss";
    case Compared::Kind::norm:
      return "norm of the gradient";
    case Compared::Kind::parameter:
      return name + " after the step";
    default:
      return "gradient of " + name;
  }
}

class Equality::Comparison {
 public:
  Comparison(Runtime& runtime, const Trial& t)
      : t_(t),
        job_(runtime, lines_of(t)),
        parallel_(job_.context()),
        model_(job_.context().open_slot("model")),
        ranks_(parallel_.sum_of_world(1)),
        mine_(make(parallel_.links(), parallel_.mesh())),
        whole_(make(parallel_.precision_links(), nullptr)) {
    fill();
  }

  void run(const std::function<void(const Compared&)>& seen) {
    seen_ = seen;
    holds_every_number_once();
    const Component component = job_.context().open_slot("optimizer");
    const auto& options = job_.context().spec().component("optimizer")->options;
    const Decay decay = usual_decay(0.01);
    Optimizer of_mine(component, options, mine_->chain().parameters(), mine_->chain().leaves(), decay,
                      Exchange(parallel_.group("world"))),
        of_whole(component, options, whole_->chain().parameters(), whole_->chain().leaves(), decay);
    for (step_ = 0; step_ < t_.steps; ++step_) {
      const double loss = one_process();
      numbers(Compared::Kind::loss, all_processes(), loss);
      each_leaf(Compared::Kind::gradient, [](const Leaf& l) { return gradient_of(l.tensor); });
      const double norm = gradient_norm(whole_->chain().leaves()), together = norm_of_all();
      numbers(Compared::Kind::norm, together, norm);
      of_whole.step(0.01, clip_factor(norm, norm / 2));
      of_mine.step(0.01, clip_factor(together, together / 2));
      each_leaf(Compared::Kind::parameter, [](const Leaf& l) { return l.tensor.detach(); });
      of_whole.zero_grad();
      of_mine.zero_grad();
    }
  }
  const Parallelism& parallel() const { return parallel_; }

 private:
  std::unique_ptr<Model> make(std::vector<const kinora_link*> links, const kinora_mesh* mesh) {
    if (t_.more) more_.push_back(t_.more());
    if (t_.more) links.push_back(more_.back()->get());
    ChainOptions o;
    o.seed = 3;
    o.dtype = parallel_.parameter_dtype();
    o.frames = t_.rule;
    o.lora = t_.lora;
    o.mesh = mesh;
    if (mesh) o.token_multiple = parallel_.token_multiple();
    return std::make_unique<Model>(model_, job_.context().spec().component("model")->options, o,
                                   std::move(links));
  }

  // Weights that leave no layer at zero, the same for both networks.
  void fill() {
    at::manual_seed(11);
    for (auto& leaf : whole_->chain().leaves()) {
      Tensor t = leaf.tensor.detach();
      const double deviation = t.dim() > 1 ? 1 / std::sqrt(static_cast<double>(t[0].numel())) : 0.2;
      const double mean = t.dim() == 1 && !leaf.name.ends_with("bias") ? 1 : 0;
      t.copy_(at::randn(t.sizes(), at::kFloat) * deviation + mean);
    }
    load_values(mine_->chain().parameters(), mine_->chain().leaves(),
                assemble(whole_->chain().parameters(), whole_->chain().leaves()));
  }

  void holds_every_number_once() {
    double held = 0;
    for (const auto& leaf : mine_->chain().leaves())
      for (const auto& p : leaf.pieces)
        held += static_cast<double>(p.count) *
                parallel_.share(mine_->chain().parameter(p.param), leaf.reduced_by_link);
    numbers(Compared::Kind::held, parallel_.sum_of_world(held), static_cast<double>(whole_->numel()));
  }

  int64_t samples() const { return t_.each * t_.micro * parallel_.data_size(); }

  NamedTensors batch(int64_t first, int64_t count) const {
    const int64_t from = 100 * step_ + first;
    const auto like = [&](at::IntArrayRef of_one) {
      std::vector<int64_t> shape{count};
      shape.insert(shape.end(), of_one.begin(), of_one.end());
      return at::empty(shape, at::TensorOptions().dtype(parallel_.dtype()));
    };
    NamedTensors out;
    if (t_.packed.empty()) {
      out["latent"] = sample_noise(like({2, t_.frames, t_.rows, t_.cols}), 5, from, "latent");
    } else {
      std::vector<int64_t> all;
      auto videos = t_.packed;  // in another order in each row
      std::rotate(videos.begin(), videos.begin() + first % static_cast<int64_t>(videos.size()), videos.end());
      for (const auto& size : videos) all.insert(all.end(), size.begin(), size.end());
      const Tensor sizes = at::tensor(all, at::kLong).view({-1, 3});
      out["latent"] = sample_noise(like({2, sizes.prod(1).sum().item<int64_t>()}), 5, from, "latent");
      out["sizes"] = sizes;
      count = sizes.size(0);  // of each video
    }
    out["timestep"] = sample_uniform({count}, 5, from, "time").to(parallel_.dtype());
    if (t_.text > 0) {
      out["text"] = sample_noise(like({t_.text, 12}), 5, from, "text");
      out["text_mask"] =
          at::arange(t_.text).unsqueeze(0) <= (at::arange(from, from + count) % t_.text).unsqueeze(1);
    }
    for (auto& [name, tensor] : out)
      if (tensor.is_floating_point()) tensor.set_requires_grad(true);
    return out;
  }

  Tensor loss_of(const Tensor& out, int64_t first) const {
    const Tensor weight = sample_noise(out.detach(), 5, 100 * step_ + first, "weight");
    return (out * weight).square().sum() / static_cast<double>(samples());
  }

  kinora_pass pass_of(int64_t first) const {
    kinora_pass pass{};
    pass.struct_size = sizeof pass;
    pass.first_sample = first;
    pass.seed = 3;
    return pass;
  }

  // All samples at once; packed rows one after the other, since they differ in shape.
  double one_process() {
    double loss = 0;
    const int64_t rows = t_.packed.empty() ? 1 : samples(), each = samples() / rows;
    wholes_.clear();
    for (int64_t first = 0; first < samples(); first += each) {
      whole_->chain().begin(pass_of(first));
      Whole one{batch(first, each), {}};
      one.output = whole_->forward(one.inputs).at(0);
      const Tensor part = loss_of(one.output, first);
      part.backward();
      loss += part.item<double>();
      wholes_.push_back(std::move(one));
    }
    return loss;
  }
  // The `count` rows of `of` for the samples from `first` on.
  template <class Of>
  Tensor part_of_whole(int64_t first, int64_t count, Of of) const {
    return t_.packed.empty() ? of(wholes_[0]).narrow(0, first, count)
                             : of(wholes_.at(static_cast<size_t>(first)));
  }

  double all_processes() {
    std::map<int64_t, Tensor> losses;
    std::map<int64_t, NamedTensors> given;
    double loss = 0;
    const auto first_of = [&](const kinora_pass& p) {
      return (p.microbatch * parallel_.data_size() + parallel_.data_rank()) * t_.each;
    };
    const auto forward = [&](kinora_pass pass) {
      const int64_t first = first_of(pass);
      kinora_pass now = pass_of(first);
      now.stage = pass.stage;
      now.microbatch = pass.microbatch;
      mine_->chain().begin(now);
      auto& in = given[pass.microbatch];
      if (in.empty()) in = batch(first, t_.each);
      try {
        const Tensor out = mine_->forward(in).at(0);
        tensors(Compared::Kind::output, "", out,
                part_of_whole(first, t_.each, [](const Whole& w) { return w.output; }));
        losses[pass.microbatch] = loss_of(out, first);
        return true;
      } catch (const Stop&) {
        return false;
      }
    };
    const auto backward = [&](const kinora_pass& pass) {
      const auto one_loss = losses.extract(pass.microbatch);
      if (!one_loss) throw Error(KINORA_ERROR_FAILED, "the schedule ran a backward without its forward");
      const Tensor one = one_loss.mapped();
      one.backward();
      loss += one.item<double>();
    };
    parallel_.step({t_.micro, forward, backward});
    if (!losses.empty())
      throw Error(KINORA_ERROR_FAILED, "the schedule left a microbatch without a backward");
    mine_->chain().reduce();
    parallel_.sum_gradients(mine_->chain().parameters(), mine_->chain().leaves());
    inputs_equal(given, first_of);
    return parallel_.sum({loss}, /*of_stages=*/true).at(0);
  }

  template <class First>
  void inputs_equal(const std::map<int64_t, NamedTensors>& given, First first_of) {
    const kinora_group& model = parallel_.group("pp+cp+tp");
    for (const auto& [micro, in] : given) {
      kinora_pass pass{};
      pass.microbatch = micro;
      for (const auto& [name, tensor] : in)
        if (tensor.requires_grad())
          tensors(Compared::Kind::input, name, Group<Tensor>(&model).sum(gradient_of(tensor)),
                  part_of_whole(first_of(pass), tensor.size(0),
                                [&](const Whole& w) { return w.inputs.at(name).grad(); }));
    }
  }

  double norm_of_all() const {
    return gradient_norm(
        mine_->chain().leaves(),
        [&](const Leaf& leaf, const Piece& piece) {
          return parallel_.share(mine_->chain().parameter(piece.param), leaf.reduced_by_link);
        },
        [&](double sum) { return parallel_.sum_of_world(sum); });
  }

  // Compares the value of each leaf with that of one process.
  template <class Of>
  void each_leaf(Compared::Kind kind, Of of) {
    std::map<std::string, Tensor> want;
    for (const auto& leaf : whole_->chain().leaves()) want[leaf.name] = of(leaf).reshape({-1});
    for (const auto& leaf : mine_->chain().leaves()) {
      const Tensor have = of(leaf).reshape({-1});
      for (const auto& piece : leaf.pieces) {
        const auto& p = mine_->chain().parameter(piece.param);
        const Tensor all = want.at(p.name);
        const double scale = std::max(all.abs().max().template item<double>(), 1e-3);
        for (const auto& r : runs(p, piece.first, piece.count))
          say(kind, p.name, have.narrow(0, piece.offset + r.local - piece.first, r.count),
              all.narrow(0, r.global, r.count), scale);
      }
    }
  }

  void tensors(Compared::Kind kind, const std::string& name, const Tensor& have, const Tensor& want) {
    if (have.sizes() == want.sizes()) return say(kind, name, have, want, want.abs().max().item<double>());
    seen_({kind, name, step_, std::numeric_limits<double>::infinity(), 0});
  }
  void numbers(Compared::Kind kind, double have, double want) {
    seen_({kind, "", step_, std::abs(have / want - 1), have / want});
  }
  void say(Compared::Kind kind, const std::string& name, const Tensor& have, const Tensor& want,
           double scale) {
    const double off = ((have - want).abs().max() / scale).item<double>();
    // Equal up to the rounding that every bound allows: the usual case, and most of a comparison's time.
    seen_({kind, name, step_, off, off <= 1e-12 ? 1 : proportion(have, want)});
  }

  Trial t_;
  TrialJob job_;
  Parallelism parallel_;
  Component model_;
  double
      ranks_;  // created before a network may throw: a rank that leaves breaks groups that others still join
  std::vector<std::unique_ptr<Link<Tensor>>> more_;
  std::unique_ptr<Model> mine_, whole_;
  std::function<void(const Compared&)> seen_;
  int64_t step_ = 0;
  struct Whole {
    NamedTensors inputs;
    Tensor output;
  };
  std::vector<Whole> wholes_;
};

Equality::Equality(Runtime& runtime, const Trial& trial)
    : comparison_(std::make_unique<Comparison>(runtime, trial)) {}
Equality::~Equality() = default;
void Equality::run(const std::function<void(const Compared&)>& seen) { comparison_->run(seen); }
const Parallelism& Equality::parallel() const { return comparison_->parallel(); }

}  // namespace kinora::core
