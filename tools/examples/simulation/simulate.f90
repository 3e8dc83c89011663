! SPDX-License-Identifier: MIT
! A simulation that trains a model of itself as it runs: Burgers' equation on a ring of cells, from random waves. Started
! by mpirun, each rank has fields of its own, and all train one model.
!     gfortran traincc.f90 simulate.f90 net.o -ltraincc -o simulate && mpirun -np 2 ./simulate
module field
    use, intrinsic :: iso_c_binding, only: c_float
    implicit none
    integer, parameter :: cells = 64, waves = 3, small_steps = 40
    real(c_float), parameter :: pi = 3.14159265, viscosity = 2e-3, dx = 1.0 / cells, dt = 2e-3
contains
    subroutine begin(u)
        real(c_float), intent(out) :: u(cells)
        real :: r(2)
        integer :: i, k
        u = 0
        do k = 1, waves
            call random_number(r)
            u = u + (r(1) - 0.5) * [(sin(2 * pi * (k * i * dx + r(2))), i = 1, cells)]
        end do
    end subroutine

    ! u_t = -(u^2 / 2)_x + viscosity u_xx, by central differences.
    subroutine advance(u)
        real(c_float), intent(inout) :: u(cells)
        real(c_float) :: left(cells), right(cells)
        integer :: i
        do i = 1, small_steps
            left = cshift(u, -1)
            right = cshift(u, 1)
            u = u + dt * (-(right**2 - left**2) / (4 * dx) + viscosity * (right - 2 * u + left) / dx**2)
        end do
    end subroutine
end module

program simulate
    use traincc
    use field
    implicit none
    interface
        subroutine next_field(trace, user) bind(c)
            import
            type(c_ptr), value :: trace, user
        end subroutine
    end interface
    integer, parameter :: samples = 32, steps = 300
    real(c_float), target :: x(cells, samples), y(cells, samples)
    type(c_ptr) :: context, model, comm = c_null_ptr
    type(tcc_optimizer_options), target :: adam
    type(tcc_model_options) :: options
    real(c_double) :: loss, first
    integer :: i, step, rank = 0
    integer, allocatable :: seed(:)
    logical :: save_it

    if (tcc_context_create(context) /= TCC_OK) stop 1
    if (tcc_comm_create(context, "mpi" // c_null_char, comm) == TCC_OK) rank = tcc_comm_rank(comm)
    ! else there is no mpirun, or no MPI: this process trains alone
    call random_seed(size=i)
    allocate (seed(i))
    seed = 1 + rank
    call random_seed(put=seed)

    call tcc_optimizer_init_sized(adam, c_sizeof(adam), TCC_ADAM)
    adam%lr = 3e-3
    options%size = c_sizeof(options)
    options%optimizer = c_loc(adam)
    options%comm = comm
    if (tcc_model_create(context, c_funloc(next_field), c_null_ptr, options, model) /= TCC_OK) call fail

    do i = 1, samples
        call begin(x(:, i))
    end do
    first = 0
    do step = 1, steps
        y = x
        do i = 1, samples
            call advance(y(:, i))
        end do
        if (tcc_model_train(model, [tcc_view("x", x), tcc_view("y", y)], 2) /= TCC_OK) call fail
        loss = tcc_model_loss(model)
        if (step == 1) first = loss
        if (rank == 0 .and. (step == 1 .or. mod(step, 50) == 0)) print "(a, i4, a, es12.4)", "step", step, "  loss", loss
        x = y
        do i = 1, samples ! a field that has come to rest begins again
            if (maxval(abs(x(:, i))) < 0.1 .or. mod(step + i, 16) == 0) call begin(x(:, i))
        end do
    end do
    save_it = rank == 0
    if (save_it) call save_parameters
    call tcc_model_destroy(model)
    call tcc_comm_destroy(comm)
    call tcc_context_destroy(context)
    if (.not. loss < first / 3) stop 1 ! it has learned nothing

contains

    subroutine fail
        write (*, "(a)") tcc_message(context)
        stop 1
    end subroutine

    ! simulation.safetensors, with the parameters under their names.
    subroutine save_parameters
        type(tcc_array) :: parameters(16)
        integer :: n
        n = 0
        do while (tcc_model_param(model, n, parameters(n + 1)))
            n = n + 1
        end do
        if (tcc_safetensors_write(context, "simulation.safetensors" // c_null_char, parameters, n, &
                                  metadata_count=0) /= TCC_OK) call fail
        print "(a, i0, a)", "saved ", n, " parameters"
    end subroutine
end program
