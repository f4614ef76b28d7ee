// The place of this process in a launch: its rank, its node and the ranks' rendezvous.
//
//   launcher            variables that it sets
//   torchrun, `kinora launch`   RANK WORLD_SIZE LOCAL_RANK GROUP_RANK MASTER_ADDR MASTER_PORT
//   Open MPI's mpirun   OMPI_COMM_WORLD_RANK _SIZE _LOCAL_RANK _LOCAL_SIZE
//   MPICH, Intel MPI    PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS
//   srun                SLURM_PROCID SLURM_STEP_NUM_TASKS (else SLURM_NTASKS) SLURM_LOCALID SLURM_NODEID
//                       SLURM_STEP_NODELIST (else SLURM_JOB_NODELIST) SLURM_JOB_ID SLURM_STEP_ID
//
// The first launcher whose variables are set counts: mpirun inside a Slurm job inherits the batch script's
// variables, and torchrun under srun is one task per node. MASTER_ADDR, MASTER_PORT, KINORA_RENDEZVOUS and
// KINORA_TIMEOUT_MS always count.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace kinora::core {

constexpr std::string_view kOwnLauncher = "kinora launch";

struct LaunchPlace {
  int64_t rank = 0, world = 1;
  int64_t local_rank = 0, node = 0;  // this rank among those of its node, and the node's number
  std::string launcher;              // "torchrun", "srun", ...; empty: started alone
  std::string rendezvous;            // "tcp://host:port", ... (kinora/abi/collective.h); empty: alone
  std::string node_name;             // Slurm's, in the rendezvous; empty: none is there
  int64_t timeout_ms = 600000;       // of each transfer
  std::string remark;                // a warning for the user about the launch; empty: none
  int64_t restart = 0;               // number of restarts by the launcher and by Slurm
  std::string job;                   // Slurm's, unique on its cluster; empty: not in one
  int64_t requeues = 0;              // how often Slurm has begun that job again

  bool first() const { return rank == 0; }
  bool alone() const { return world == 1; }
};

// The value of a variable, "" if it is not set.
using Variables = std::function<std::string(const char*)>;

// Returns KINORA_ERROR_INVALID if variables contradict each other; the message names them.
Result<LaunchPlace> place_of(const Variables&);
// The place of this process. Throws Error(KINORA_ERROR_INVALID).
LaunchPlace here();
// Number of ranks of the launch that these variables describe; 0 if they describe none. WORLD_SIZE alone
// suffices, so that a planned launch can be examined.
Result<int64_t> ranks_of(const Variables&);

// The first host of Slurm's compressed list: "gpu[003-005,9]-ib,login1" is gpu003-ib.
std::string first_host(std::string_view list);

}  // namespace kinora::core
