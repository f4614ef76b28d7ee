#include "plugins/jobs/published/published_sampler.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

// Throws if the scheduler's configuration has other values for these keys; they would need another sampler.
void require_said(const json& scheduler, const json& as) {
  for (const auto& [name, want] : as.items()) {
    const json is = scheduler.value(name, json());
    if (is.is_null() || is == want ||
        (want.is_number() && is.is_number() && is.get<double>() == want.get<double>()))
      continue;
    throw Error(KINORA_ERROR_UNSUPPORTED,
                fmt::format("{} with {} = {} (known: {}); give a sampler of your own, such as "
                            "sampler = {{ use = \"unipc\", shift = 3.0 }}",
                            scheduler.value("_class_name", "a scheduler"), name, is.dump(), want.dump()));
  }
}

}  // namespace

nlohmann::json flow_sampler(const json& s, int64_t steps) {
  const std::string kind = said_in<std::string>(s, "_class_name", "");
  const double thousand = said_in(s, "num_train_timesteps", 1000.0);
  require_said(s, {{"use_karras_sigmas", false},
                   {"use_exponential_sigmas", false},
                   {"use_beta_sigmas", false},
                   {"use_dynamic_shifting", false}});
  if (s.contains("shift_terminal") && !s["shift_terminal"].is_null())
    require_said(s, {{"shift_terminal", "null"}});
  if (kind == "FlowMatchEulerDiscreteScheduler") {
    require_said(s, {{"invert_sigmas", false}, {"stochastic_sampling", false}});
    return {{"sampler",
             {{"use", "flow-euler"},
              {"steps", steps},
              {"shift", said_in(s, "shift", 1.0)},
              {"convention", "diffusers-alone"}}},
            {"loss", {{"use", "flow"}, {"timestep_scale", thousand}}}};
  }
  if (kind != "UniPCMultistepScheduler")
    throw Error(KINORA_ERROR_UNSUPPORTED,
                "the scheduler " + kind +
                    " is not known for this pipeline; known are UniPCMultistepScheduler and "
                    "FlowMatchEulerDiscreteScheduler. Give a sampler of your own, such as sampler = { use = "
                    "\"unipc\", shift = 3.0 }");
  require_said(s, {{"use_flow_sigmas", true},
                   {"prediction_type", "flow_prediction"},
                   {"predict_x0", true},
                   {"final_sigmas_type", "zero"},
                   {"thresholding", false},
                   {"disable_corrector", json::array()}});
  const bool bh1 = said_in<std::string>(s, "solver_type", "bh2") == "bh1";
  return {{"sampler",
           {{"use", "unipc"},
            {"steps", steps},
            {"shift", said_in(s, "flow_shift", 1.0)},
            {"order", said_in<int64_t>(s, "solver_order", 2)},
            {"solver_type", bh1 ? "bh1" : "bh2"},
            {"lower_order_final", said_in(s, "lower_order_final", true)},
            {"convention", "diffusers"}}},
          {"loss", {{"use", "flow"}, {"timestep_scale", thousand}, {"whole_timesteps", true}}}};
}

nlohmann::json edm_sampler(const json& s, int64_t steps) {
  const std::string kind = said_in<std::string>(s, "_class_name", "");
  const bool edm = kind == "EDMEulerScheduler";
  if (edm)
    require_said(s, {{"sigma_schedule", "karras"}, {"prediction_type", "epsilon"}});
  else if (kind == "FlowMatchEulerDiscreteScheduler")
    require_said(s, {{"sigma_data", 1.0},
                     {"use_exponential_sigmas", false},
                     {"use_beta_sigmas", false},
                     {"invert_sigmas", false},
                     {"stochastic_sampling", false},
                     {"use_dynamic_shifting", false}});
  else
    throw Error(
        KINORA_ERROR_UNSUPPORTED,
        "the scheduler " + kind +
            " is not known for this pipeline; known are EDMEulerScheduler and "
            "FlowMatchEulerDiscreteScheduler. Give a sampler of your own, such as sampler = \"euler\"");
  if (!edm && !said_in(s, "use_karras_sigmas", false)) require_said(s, {{"use_karras_sigmas", true}});
  const double sigma_data = said_in(s, "sigma_data", edm ? 0.5 : 1.0);
  const bool to_zero = said_in<std::string>(s, "final_sigmas_type", edm ? "zero" : "sigma_min") == "zero";
  return {{"sampler",
           {{"use", "euler"},
            {"steps", steps},
            {"sigma_min", said_in(s, "sigma_min", 0.002)},
            {"sigma_max", said_in(s, "sigma_max", 80.0)},
            {"rho", said_in(s, "rho", 7.0)},
            {"final", to_zero ? "zero" : "sigma_min"}}},
          {"loss", edm ? json{{"use", "edm"}, {"sigma_data", sigma_data}} : json{{"use", "rectified-flow"}}},
          {"sigma_data", sigma_data}};
}

}  // namespace kinora::core
