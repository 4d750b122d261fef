/// Included before tets_forces.c to compile it once more, for any processor, under names of its own: a test holds both
/// forms together.
#define QPC_PORTABLE_LANES 1
#define qpc_tets_energy portable_tets_energy
#define qpc_tets_force portable_tets_force
#define qpc_tets_linearise portable_tets_linearise
#define qpc_tets_stress portable_tets_stress
