// Shots, of the run file and of prompts_file, are refused before anything is loaded.
#pragma once
#include "core/run/job_check.hpp"
#include "plugins/jobs/inference/generate_options.hpp"
#include "plugins/jobs/inference/request.hpp"

namespace kinora::core {

// Checks that a video of shots is made chunk by chunk, and one of several shots on a cache. why_no_cache: "" if the
// job has one.
void check_shots(JobCheck&, const GenerateOptions&, const std::string& why_no_cache);

// Latent frames of a request's video: those of its shots, else `otherwise`; 0: unknown, since shots are in seconds and
// the frames per second are not known yet. time: frames of a latent frame.
int64_t latent_frames_of(JobCheck&, const GenerateOptions&, const Request&, int64_t time, int64_t otherwise);

// Checks that a model with learnt positions has enough of them in time for each video of shots. time: frames of
// a latent frame. Shots in seconds are left out while the frames per second are unknown.
void check_positions(JobCheck&, const GenerateOptions&, const ComponentUse& model, int64_t time);

}  // namespace kinora::core
