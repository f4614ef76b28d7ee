#include "core/runtime/place.hpp"

#include <charconv>
#include <optional>

#include "core/base/paths.hpp"

namespace kinora::core {
namespace {

constexpr int64_t kPort = 29500;  // torchrun's

// The variable's value, 0 or more; nullopt if it is not set.
std::optional<int64_t> number(const Variables& of, const char* name) {
  const std::string text = of(name);
  if (text.empty()) return std::nullopt;
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("{}={} is not an integer of at least 0; unset it or let the launcher set it",
                            name, text));
  return value;
}

// Names of one launcher's variables.
struct Names {
  const char *launcher, *rank, *world, *local_rank, *local_size;
};
constexpr Names kExplicit{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi{"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kMpich{"mpirun of MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

// Returns nullopt if neither rank nor world size is set; throws if only one is, or the rank is out of range.
std::optional<LaunchPlace> numbered(const Variables& of, const Names& names) {
  const auto rank = number(of, names.rank), world = number(of, names.world);
  if (!rank && !world) return std::nullopt;
  if (!rank || !world)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("{} is set and {} is not; a launcher sets both: set it too, or unset the other",
                            rank ? names.rank : names.world, rank ? names.world : names.rank));
  if (*rank >= *world)
    throw Error(KINORA_ERROR_INVALID, fmt::format("{}={} is outside {}={}: ranks are 0 to {}", names.rank,
                                                  *rank, names.world, *world, *world - 1));
  LaunchPlace out{.rank = *rank, .world = *world, .launcher = names.launcher};
  out.local_rank = number(of, names.local_rank).value_or(out.rank);
  if (const auto n = number(of, names.local_size); n && *n > 0) {
    if (out.local_rank >= *n)
      throw Error(KINORA_ERROR_INVALID, fmt::format("{}={} is outside {}={}", names.local_rank,
                                                    out.local_rank, names.local_size, *n));
    out.node = out.rank / *n;
  }
  return out;
}

std::string tcp(const std::string& host, int64_t port) { return fmt::format("tcp://{}:{}", host, port); }

// The host of rank 0 for launchers that may not name hosts. Ranks of one node need none.
std::string host_of(const Variables& of, const Names& names, const std::string& address, LaunchPlace& out) {
  if (!address.empty()) return address;
  if (out.alone() || !of("KINORA_RENDEZVOUS").empty()) return "127.0.0.1";
  const auto here = number(of, names.local_size);
  if (here && *here < out.world)
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format("there are {} ranks, {} of them on this node, and MASTER_ADDR is not set; pass the "
                    "host of rank 0 to all ranks as MASTER_ADDR",
                    out.world, *here));
  if (!here)
    out.remark =
        "MASTER_ADDR is not set, and the ranks meet at 127.0.0.1; if they are on several machines, pass the "
        "host of rank 0 to all as MASTER_ADDR";
  return "127.0.0.1";
}

// torchrun's agent serves the store at this address; each restart uses an empty prefix of it.
LaunchPlace of_torchrun(const Variables& of, LaunchPlace out, const std::string& address, int64_t port) {
  if (!of("KINORA_LAUNCH").empty()) out.launcher = kOwnLauncher;
  out.node = number(of, "GROUP_RANK").value_or(out.node);
  out.restart = number(of, "TORCHELASTIC_RESTART_COUNT").value_or(0);
  const std::string host = host_of(of, kExplicit, address, out);
  out.rendezvous = of("TORCHELASTIC_USE_AGENT_STORE") == "True"
                       ? fmt::format("store://{}:{}/attempt-{}", host, port, out.restart)
                       : tcp(host, port);
  return out;
}

LaunchPlace of_mpi(const Variables& of, const Names& names, LaunchPlace out, const std::string& address,
                   int64_t port) {
  out.rendezvous = tcp(host_of(of, names, address, out), port);
  return out;
}

// The place of a task of a job step. The batch script itself also has SLURM_PROCID=0 and the job's
// SLURM_NTASKS, but is not part of a step. It runs alone: ranks it would wait for are never started. (A shell
// of salloc has no SLURM_PROCID, or is in a step of one task.)
std::optional<LaunchPlace> of_srun(const Variables& of, const std::string& address,
                                   std::optional<int64_t> port) {
  const auto rank = number(of, "SLURM_PROCID");
  const auto step = number(of, "SLURM_STEP_ID"), in_step = number(of, "SLURM_STEP_NUM_TASKS");
  const auto world = in_step ? in_step : number(of, "SLURM_NTASKS");
  const bool is_script = !step && !in_step && of("ENVIRONMENT") == "BATCH";
  if (!rank || is_script) {
    if (!world || *world <= 1) return std::nullopt;
    return LaunchPlace{
        .remark = fmt::format("this Slurm job has {} tasks, and this process is not one of them; it runs "
                              "alone; to run on all, start it with srun",
                              *world)};
  }
  if (!world)
    throw Error(KINORA_ERROR_INVALID,
                "SLURM_PROCID is set and SLURM_NTASKS is not; start it with srun --ntasks=N");
  if (*rank >= *world)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("SLURM_PROCID={} is outside the {} tasks of its step", *rank, *world));
  LaunchPlace out{.rank = *rank, .world = *world, .launcher = "srun"};
  out.local_rank = number(of, "SLURM_LOCALID").value_or(0);
  out.node = number(of, "SLURM_NODEID").value_or(0);
  const std::string list = of("SLURM_STEP_NODELIST");
  // Ranks of one node need no network.
  if (address.empty() && number(of, "SLURM_STEP_NUM_NODES").value_or(0) != 1)
    out.node_name = first_host(list.empty() ? of("SLURM_JOB_NODELIST") : list);
  // Steps and jobs on one node must not share a port; the range is below the ephemeral ports.
  // An attempt that Slurm has lost may still hold its own.
  constexpr int64_t kPerRequeue = 1009;
  const int64_t derived = 10000 + (number(of, "SLURM_JOB_ID").value_or(0) * 31 + step.value_or(0) +
                                   number(of, "SLURM_RESTART_COUNT").value_or(0) * kPerRequeue) %
                                      20000;
  out.rendezvous = tcp(!address.empty()        ? address
                       : out.node_name.empty() ? "127.0.0.1"
                                               : out.node_name,
                       port.value_or(derived));
  return out;
}

LaunchPlace found(const Variables& of) {
  const std::string address = of("MASTER_ADDR");
  const auto port = number(of, "MASTER_PORT");
  if (port && (*port == 0 || *port > 65535))
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("MASTER_PORT={} is not a port; use one in [1, 65535]", *port));
  if (const auto place = numbered(of, kExplicit))
    return of_torchrun(of, *place, address, port.value_or(kPort));
  for (const Names* mpi : {&kOpenMpi, &kMpich})
    if (const auto place = numbered(of, *mpi)) return of_mpi(of, *mpi, *place, address, port.value_or(kPort));
  return of_srun(of, address, port).value_or(LaunchPlace{});
}

}  // namespace

std::string first_host(std::string_view list) {
  std::string out;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      out += list[i];
      continue;
    }
    const size_t close = std::min(list.find(']', i), list.size());
    const auto inside = list.substr(i + 1, close - i - 1);
    out += inside.substr(0, inside.find_first_of("-,"));
    i = close;
  }
  return out;
}

Result<LaunchPlace> place_of(const Variables& of) {
  return catching([&] {
    LaunchPlace out = found(of);
    if (const auto uri = of("KINORA_RENDEZVOUS"); !uri.empty()) out.rendezvous = uri, out.node_name.clear();
    if (out.alone()) out.rendezvous.clear(), out.node_name.clear();
    if (const std::string job = of("SLURM_JOB_ID"); !job.empty()) {
      out.job = of("SLURM_CLUSTER_NAME").empty() ? job : of("SLURM_CLUSTER_NAME") + "/" + job;
      out.requeues = number(of, "SLURM_RESTART_COUNT").value_or(0);
      out.restart += out.requeues;
    }
    if (const auto ms = number(of, "KINORA_TIMEOUT_MS")) {
      if (*ms == 0 || *ms > INT32_MAX)
        throw Error(KINORA_ERROR_INVALID,
                    fmt::format("KINORA_TIMEOUT_MS={} is not a time limit; give milliseconds above 0", *ms));
      out.timeout_ms = *ms;
    }
    return out;
  });
}

LaunchPlace here() { return or_throw(place_of(environment)); }

Result<int64_t> ranks_of(const Variables& of) {
  return catching([&] {
    const auto world = number(of, kExplicit.world);
    if (world && *world > 0 && of(kExplicit.rank).empty()) return *world;
    const LaunchPlace place = or_throw(place_of(of));
    return place.launcher.empty() ? int64_t{0} : place.world;
  });
}

}  // namespace kinora::core
