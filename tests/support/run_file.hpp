// A run in a scratch folder, for tests of jobs: a small run file with every kind of job, and the context of
// any of them without running the earlier ones.
#pragma once
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/run/job.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "host/weights/weights.hpp"
#include "tests/support/plugins.hpp"

namespace kinora {

inline constexpr uint64_t kSeed = 3;  // seed of ScratchRun

namespace test {

inline core::Runtime& runtime() {
  static core::Runtime* made = [] {
    plugins();
    core::RuntimeOptions quiet;
    quiet.log_level = "error";
    return core::or_throw(core::Runtime::start(quiet)).release();
  }();
  return *made;
}

// Runs one job; its exceptions pass through.
inline void run_job(core::JobContext& job) {
  core::job_type(job.runtime().registry(), *job.spec().kind).run(job);
}

class ScratchRun {
 public:
  // more: lines for a job of the run below, by its name; FOLDER in them is the run's folder. They may set the
  // tokenizer, the latents' sizes, the dit's model and the job film's prompts.
  explicit ScratchRun(const std::map<std::string, std::string>& more = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "kinora-run-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    std::ofstream(folder_ / "vocab.txt") << "[PAD]\n[UNK]\n[CLS]\n[SEP]\nred\nblue\nsea\n";
    std::ofstream(folder_ / "film.mp4") << "is not read";
    const auto document = core::or_throw(core::Document::parse(text(more), (folder_ / "run.toml").string()));
    std::vector<core::Diagnostic> problems;
    run_ = core::read_run(document, runtime().registry(), core::with_weights, problems);
    for (const auto& p : problems) problems_ += core::format(p) + "\n";
  }
  ScratchRun(const ScratchRun&) = delete;
  ScratchRun& operator=(const ScratchRun&) = delete;
  ~ScratchRun() { std::filesystem::remove_all(folder_); }

  // Errors in the run file; if there are any, do not request a context.
  const std::string& problems() const { return problems_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path of(const std::string& job) const { return folder_ / job; }
  const core::RunFile& run() const { return run_; }
  const core::JobSpec& spec(const std::string& job) const {
    for (const auto& j : run_.jobs)
      if (j.name == job) return j;
    throw Error(KINORA_ERROR_NOT_FOUND, job);
  }
  core::JobContext context(const std::string& job, bool writes = true) const {
    if (!problems_.empty()) throw Error(KINORA_ERROR_INVALID, problems_);
    return {runtime(), run_, spec(job), writes};
  }
  std::vector<core::json> metrics(const std::string& job) const {
    std::vector<core::json> out;
    std::ifstream in(of(job) / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) out.push_back(core::json::parse(line));
    return out;
  }

  // A network of a job's slot, created as in a run, with parameters that leave no layer at zero.
  // links: of its chain; they must outlive it.
  std::unique_ptr<core::Model> model(const std::string& job, const std::string& slot = "model",
                                     at::ScalarType dtype = at::kFloat,
                                     const std::vector<const kinora_link*>& links = {}) const {
    return filled<core::Model>(job, slot, dtype, links);
  }
  std::unique_ptr<core::Tokenizer> tokenizer(const std::string& job,
                                             at::ScalarType dtype = at::kFloat) const {
    return filled<core::Tokenizer>(job, "tokenizer", dtype, {});
  }
  // Writes a network's weights.
  static void save(core::Network& network, const std::filesystem::path& file) {
    std::filesystem::create_directories(file.parent_path());
    core::write_tensors(file, core::assemble(network.chain().parameters(), network.chain().leaves()));
  }

 private:
  template <class N>
  std::unique_ptr<N> filled(const std::string& job, const std::string& slot, at::ScalarType dtype,
                            const std::vector<const kinora_link*>& links) const {
    const auto* use = spec(job).component(slot);
    auto made = std::make_unique<N>(core::or_throw(runtime().registry().open(use->id)), use->options,
                                    core::ChainOptions{.dtype = dtype}, links);
    at::manual_seed(11);
    for (auto& leaf : made->chain().leaves()) {
      at::Tensor t = leaf.tensor.detach();
      const double deviation = t.dim() > 1 ? 1 / std::sqrt(static_cast<double>(t[0].numel())) : 0.2;
      const double mean = t.dim() == 1 && !leaf.name.ends_with("bias") ? 1 : 0;
      t.copy_(at::randn(t.sizes(), at::kFloat) * deviation +
              mean);  // drawn in float32: the same in any dtype
    }
    return made;
  }
  std::string text(const std::map<std::string, std::string>& more) const {
    const auto lines = [&](const std::string& job) {
      std::string all = more.count(job) ? more.at(job) : "";
      for (size_t at = 0; (at = all.find("FOLDER")) != std::string::npos;)
        all.replace(at, 6, folder_.string());
      return all + "\n";
    };
    std::string out = fmt::format("[run]\nout = '{}'\nseed = {}\n", folder_.string(), kSeed);
    const auto job = [&](const std::string& name, const std::string& kind, const std::string& rest) {
      out += fmt::format("[[job]]\nname = '{}'\nkind = '{}'\n{}\n{}", name, kind, rest, lines(name));
    };
    job("clips", "curate", fmt::format("input = '{}/film.mp4'\nstages = ['video.probe']", folder_.string()));
    job("shards", "shard", "input = 'clips'");
    const auto unless_given = [&](const char* name, const std::string& key, const std::string& line) {
      return lines(name).find(key + " = ") == std::string::npos ? line : "";
    };
    job("tokenizer", "train-tokenizer",
        "input = 'shards'\nheight = 16\nwidth = 32\nevery = 8\nframes = 9\n" +
            unless_given(
                "tokenizer", "tokenizer",
                "tokenizer = { use = 'cosmos', latent_channels = 2, encoder_block_out_channels = [4, 8, 8], "
                "decode_block_out_channels = [4, 8, 8] }"));
    std::string window;
    for (const auto& [key, value] :
         {std::pair("height", 16), {"width", 32}, {"every", 8}, {"frames", 9}, {"stride", 4}})
      window += unless_given("latents", key, fmt::format("{} = {}\n", key, value));
    job("latents", "encode",
        window + unless_given("latents", "input", "input = ['shards', 'tokenizer']\n") +
            fmt::format(
                "text_weights = '{0}/text.safetensors'\n"
                "words = {{ use = 'text.wordpiece', vocab = '{0}/vocab.txt', max_length = 32 }}\n"
                "text = {{ use = 'minilm', layers = 1, hidden = 12, heads = 2, intermediate = 16, vocab = 7, "
                "max_positions = 40 }}",
                folder_.string()));
    job("dit", "train",
        "input = 'latents'\n" +
            unless_given("dit", "model",
                         "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = "
                         "1, heads = 2, head_size = 12, adaln_lora = 4 }"));
    job("film", "generate",
        std::string("input = 'dit'\nsampler = { use = 'edm-heun', steps = 3 }\n") +
            unless_given("film", "prompts", "prompts = ['red sea', 'blue']"));
    return out;
  }
  std::filesystem::path folder_;
  core::RunFile run_;
  std::string problems_;
};

}  // namespace test
}  // namespace kinora
