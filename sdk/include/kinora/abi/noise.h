/* How noise is mixed into a clean latent, which defines the unit of a noise level.            since ABI 1.0
 *
 * Both describe one process in different units: with s = sigma / (1 + sigma), x of RECTIFIED_FLOW is
 * (1 - s) times x of VARIANCE_EXPLODING. The host converts if a sampler and a loss differ. */
#ifndef KINORA_ABI_NOISE_H
#define KINORA_ABI_NOISE_H
#include "kinora/abi/base.h"

#define KINORA_MIX_VARIANCE_EXPLODING \
  0u                                 /* x = x0 + sigma n, sigma in [0, inf): EDM, "variance exploding" \
                                      */
#define KINORA_MIX_RECTIFIED_FLOW 1u /* x = (1 - s) x0 + s n, s in [0, 1]: rectified flow, flow matching */
#endif
