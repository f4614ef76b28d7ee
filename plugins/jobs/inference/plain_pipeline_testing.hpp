// A pipeline as a program makes it: from plain values, without a job or its folder. A run lends its components
// alone, so that the networks are those of other tests.
#pragma once
#include "plugins/jobs/inference/session.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core::inference {

struct PlainPipeline {
  explicit PlainPipeline(const test::ScratchRun& run, LatentFacts latents = latents_of_15_frames())
      : parallel(test::runtime(), plan(run)),
        pipeline(test::runtime(), spec(run, std::move(latents)), parallel) {}
  // The file is written if need be.
  static Part part(const test::ScratchRun& run, const std::string& job, const std::string& slot) {
    const auto file = run.folder() / (job + "-" + slot + ".safetensors");
    if (slot == "tokenizer")
      test::ScratchRun::save(*run.tokenizer(job), file);
    else
      test::ScratchRun::save(*run.model(job, slot), file);
    return {shared_use(*run.spec(job).component(slot)), {file}};
  }
  static PipelineSpec spec(const test::ScratchRun& run, LatentFacts latents) {
    PipelineSpec out;
    out.name = "server";
    out.parts["tokenizer"] = part(run, "tokenizer", "tokenizer");
    out.parts["model"] = part(run, "dit", "model");
    out.parts["loss"] = {shared_use(*run.spec("dit").component("loss")), {}};
    for (const char* slot : {"sampler", "precision"})
      out.parts[slot] = {shared_use(*run.spec("film").component(slot)), {}};
    out.parts["text"] = part(run, "latents", "text");
    out.parts["words"] = {shared_use(*run.spec("latents").component("words")), {}};
    out.text = TextEncoder::parts_of(run.spec("latents"));
    out.text->weights = out.parts["text"].weights;
    out.latents = std::move(latents);
    out.device = "cpu";
    return out;
  }
  static LaunchPlan plan(const test::ScratchRun& run) {
    const JobSpec& job = run.spec("film");
    LaunchPlan out;
    out.name = "server";
    for (const auto* use : job.list("parallel")) out.strategies.push_back(*use);
    out.precision = *job.component("precision");
    out.collective = *job.component("collective");
    out.out = run.folder();
    return out;
  }
  static LatentFacts latents_of_15_frames() {
    LatentFacts out;
    out.scale = {{0.1, -0.2}, {1.5, 0.7}, 0.5};
    out.shape = {2, 15, 2, 4};
    out.text_size = 12;
    return out;
  }

  Parallelism parallel;
  Pipeline pipeline;
};

}  // namespace kinora::core::inference
